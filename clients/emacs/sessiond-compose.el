;;; sessiond-compose.el --- What people type in a chat buffer  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 the sessiond authors

;; Author: the sessiond authors
;; SPDX-License-Identifier: MIT

;;; Commentary:

;; The lower part of a chat buffer:
;;
;;     text on its way to the daemon
;;     a line that says how to send
;;     your input
;;
;; The rules of this file:
;;
;; 1. Text belongs to the user until the daemon has made it durable.  Sent text
;;    is above the line as "sending", and comes back below it if it is refused
;;    or the daemon cannot be reached.
;; 2. Text that came back keeps its id until it is seen in the session, and then
;;    leaves the input, or until something else is sent.  So what was durable
;;    after all is not added twice, and the same words said later are new ones.
;; 3. Everything that is not in the session yet is kept as a draft in the
;;    session's state, at most once a second.  All Emacsen have one draft: what
;;    another one keeps there stays, before ours.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'sessiond)
(require 'sessiond-transcript)

(defconst sessiond-compose--key :draft:emacs
  "The key of the draft in the state of a session.")

(defconst sessiond-compose--delay 1
  "Seconds between typing and keeping a draft; never sent more often.")

(defvar-local sessiond-compose--line nil "Where the line above the input begins.")
(defvar-local sessiond-compose--input nil "Where the input begins.")
(defvar-local sessiond-compose--pending nil
  "Lists (ID TEXT ENTRY) of what is on its way, oldest first.")
(defvar-local sessiond-compose--returned nil
  "Conses (TEXT . ID) of what came back and may be durable after all.
In the order in which the texts stand at the beginning of the input.")
(defvar-local sessiond-compose--timer nil "Timer to keep the draft, or nil.")
(defvar-local sessiond-compose--draft nil "The draft of ours that the daemon has, or nil.")
(defvar-local sessiond-compose--others "" "What other Emacsen keep in the same draft.")
(defvar-local sessiond-compose--draft-refused nil "Non-nil if the daemon refused it.")
(defvar-local sessiond-compose--opened nil "Non-nil once the session was shown.")
(defvar-local sessiond-compose--deleted nil
  "Non-nil if the session is gone; the id that it has now if it was moved.")


;;; The line

(defun sessiond-compose-setup ()
  "Put the line above the input at the end of the buffer."
  (goto-char (point-max))
  (setq sessiond-compose--line (point-marker))
  ;; The transcript's end stays in front of the line.
  (set-marker-insertion-type sessiond-transcript--end nil)
  (insert (apply #'propertize (substitute-command-keys
                               "── \\<sessiond-chat-mode-map>\\[sessiond-send] sends ──\n")
                 'face 'sessiond-detail 'sessiond-part 'line
                 sessiond-transcript--fixed))
  (set-marker-insertion-type sessiond-transcript--end t)
  (set-marker-insertion-type sessiond-compose--line t)
  (setq sessiond-compose--input (point-marker)))


;;; Sending

(defun sessiond-send ()
  "Send the text below the line.
If that fails, the text comes back."
  (interactive)
  (cond
   ((string-blank-p (sessiond-compose-input)) (user-error "There is nothing to send"))
   ((stringp sessiond-compose--deleted)
    (user-error "This session is %s now; switch to it.  What you typed is still here"
                sessiond-compose--deleted))
   (sessiond-compose--deleted
    (user-error "This session was deleted; what you typed is still here.  `sessiond restore %s' brings it back; then switch to it"
                sessiond-session-id)))
  (cl-loop for (text id) in (sessiond-compose--parts)
           while (sessiond-compose--send text (or id (sessiond-new-id)))))

(defun sessiond-compose--parts ()
  "Split the input into messages, a list of (TEXT ID START).
What came back is a message of its own with its id.  The rest has
none.  START counts from the beginning of the input."
  (let ((input (string-trim-right (sessiond-compose-input)))
        (start 0)
        (parts nil))
    (pcase-dolist (`(,text . ,id) sessiond-compose--returned)
      (let ((left (substring input start)))
        (when (or (equal left text) (string-prefix-p (concat text "\n\n") left))
          (push (list text id start) parts)
          (setq start (min (length input) (+ start (length text) 2))))))
    (unless (string-blank-p (substring input start))
      (push (list (substring input start) nil start) parts))
    (nreverse parts)))

(defun sessiond-compose--send (text id)
  "Send TEXT, with which the input begins, as message ID.
Return whether it is on its way."
  (let* ((buffer (current-buffer))
         (entry (sessiond-with-errors
                  (sessiond-append
                   sessiond-session-id
                   (list (list :id id :role "user" :content text))
                   :on-result (lambda (_) (sessiond-compose--sent buffer id))
                   :on-error (lambda (error)
                               (sessiond-compose--refused buffer id error))))))
    ;; An entry that is refused at once leaves the text where it is.
    (when (sessiond-pending-p entry)
      (setq sessiond-compose--pending
            (append sessiond-compose--pending (list (list id text entry))))
      (sessiond-compose--take-out 0 text)
      (sessiond-compose--forget id)
      (when (string-blank-p (sessiond-compose-input))
        (delete-region sessiond-compose--input (point-max))
        ;; What came back and is not there any more was changed: it is a new text.
        (setq sessiond-compose--returned nil))
      (goto-char (point-max))
      (sessiond-compose--show-pending)
      t)))

(defun sessiond-compose--take-out (start text)
  "Delete TEXT, which is at START of the input, and the blank line after it."
  (save-excursion
    (goto-char (+ sessiond-compose--input start))
    (delete-region (point) (+ (point) (length text)))
    (when (looking-at "\n\n")
      (delete-region (point) (match-end 0)))))

(defun sessiond-compose--forget (id)
  "Forget that message ID came back."
  (setq sessiond-compose--returned
        (cl-delete id sessiond-compose--returned :key #'cdr :test #'equal)))

(defun sessiond-compose-input ()
  "The text below the line."
  (buffer-substring-no-properties sessiond-compose--input (point-max)))

(defun sessiond-compose--sent (buffer id)
  "Message ID of BUFFER is durable."
  (when (buffer-live-p buffer)
    (with-current-buffer buffer
      (sessiond-compose-arrived id)
      (sessiond-compose--keep-soon))))

(defun sessiond-compose-arrived (id)
  "Message ID is in the session: it is neither on its way nor to be sent."
  (when-let* ((part (and (rassoc id sessiond-compose--returned)
                         (cl-find id (sessiond-compose--parts)
                                  :key #'cadr :test #'equal))))
    (sessiond-compose--take-out (nth 2 part) (car part)))
  (sessiond-compose--forget id)
  (when (assoc id sessiond-compose--pending)
    (setq sessiond-compose--pending (assoc-delete-all id sessiond-compose--pending))
    (sessiond-compose--show-pending)))

(defun sessiond-compose--refused (buffer id error)
  "Message ID of BUFFER was refused with ERROR: bring it back."
  (when (buffer-live-p buffer)
    (with-current-buffer buffer
      (when-let* ((pending (assoc id sessiond-compose--pending)))
        (setq sessiond-compose--pending (delq pending sessiond-compose--pending))
        (sessiond-compose--return (list pending)))))
  (sessiond-tell-error error))

(defun sessiond-compose-return-all ()
  "Bring back everything that is on its way."
  (when-let* ((all sessiond-compose--pending))
    (setq sessiond-compose--pending nil)
    (dolist (pending all)
      (sessiond-withdraw (nth 2 pending)))
    (sessiond-compose--return all)))

(defun sessiond-compose--return (pendings)
  "Put the texts of PENDINGS before what was typed meanwhile."
  (setq sessiond-compose--returned
        (append (mapcar (lambda (pending) (cons (nth 1 pending) (nth 0 pending)))
                        pendings)
                sessiond-compose--returned))
  (let ((at-end (= (point) (point-max)))
        (text (mapconcat #'cadr pendings "\n\n"))
        (typed (sessiond-compose-input)))
    (save-excursion
      (goto-char sessiond-compose--input)
      (insert text (if (string-empty-p typed) "" "\n\n")))
    (when at-end
      (goto-char (point-max))))
  (sessiond-compose--show-pending))

(defun sessiond-compose--show-pending ()
  "Show what is on its way, between the transcript and the line."
  (sessiond-transcript--edit
    (let ((end (marker-position sessiond-transcript--end)))
      (delete-region end sessiond-compose--line)
      (goto-char end)
      (dolist (pending sessiond-compose--pending)
        (insert (apply #'propertize
                       (concat (sessiond-transcript--heading "user" nil nil "sending")
                               (nth 1 pending) "\n\n")
                       'sessiond-part 'pending sessiond-transcript--fixed)))
      (set-marker sessiond-transcript--end end))))


;;; Drafts

(defun sessiond-compose--typed (beg _end _length)
  "Text was changed at BEG: keep it if it is input."
  (when (and sessiond-compose--input (>= beg sessiond-compose--input))
    (sessiond-compose--keep-soon)))

(defun sessiond-compose--keep-soon ()
  "Keep the draft in a while, unless that is already planned."
  (unless (or sessiond-compose--timer (not sessiond-compose--opened))
    (setq sessiond-compose--timer
          (run-at-time sessiond-compose--delay nil
                       #'sessiond-compose--keep-in (current-buffer)))))

(defun sessiond-compose--keep-in (buffer)
  "Keep the draft of BUFFER."
  (when (buffer-live-p buffer)
    (with-current-buffer buffer
      (sessiond-compose-keep))))

(defun sessiond-compose--unsent ()
  "Text that was typed and is not in the session yet, or nil."
  (let ((text (string-join `(,@(mapcar #'cadr sessiond-compose--pending)
                             ,(sessiond-compose-input))
                           "\n\n")))
    (and (not (string-blank-p text)) text)))

(defun sessiond-compose-unkept-p ()
  "Whether something was typed here that the daemon does not have."
  (let ((text (sessiond-compose--unsent)))
    (and text (not (equal text sessiond-compose--draft)))))

(defun sessiond-compose-lost-p ()
  "Whether something was typed here that is lost with this Emacs."
  (and (sessiond-compose-unkept-p)
       (or sessiond-compose--deleted
           sessiond-compose--draft-refused
           (not (sessiond-connected-p)))))

(defun sessiond-compose-keep (&optional now)
  "Keep text that is not in the session yet, if it has changed.
Without a connection, wait for one unless NOW is non-nil."
  (when sessiond-compose--timer
    (cancel-timer sessiond-compose--timer)
    (setq sessiond-compose--timer nil))
  (let ((text (sessiond-compose--unsent)))
    (when (and sessiond-compose--opened
               (not sessiond-compose--deleted)
               (not (equal text sessiond-compose--draft)))
      (if (not (or now (sessiond-connected-p)))
          (sessiond-compose--keep-soon)
        (let ((buffer (current-buffer))
              (before sessiond-compose--draft))
          (setq sessiond-compose--draft text)
          (sessiond-set-state sessiond-session-id
                              (sessiond-compose--state text)
                              :on-result (lambda (_)
                                           (when (buffer-live-p buffer)
                                             (with-current-buffer buffer
                                               (setq sessiond-compose--draft-refused nil))))
                              :on-error (sessiond-compose--draft-failed before)))))))

(defun sessiond-compose--state (text)
  "State in which TEXT, or nil, is our draft beside those of others."
  (let ((texts (remove "" (list sessiond-compose--others (or text "")))))
    (list sessiond-compose--key (and texts (string-join texts "\n\n")))))

(defun sessiond-compose-heard (values)
  "Another client has set VALUES in the state: our draft is a part of it or gone."
  (when (plist-member values sessiond-compose--key)
    (let* ((draft (plist-get values sessiond-compose--key))
           (padded (concat "\n\n" (and (stringp draft) draft) "\n\n"))
           (ours (concat "\n\n" sessiond-compose--draft "\n\n"))
           (start (and sessiond-compose--draft (string-search ours padded))))
      (setq sessiond-compose--others
            (string-trim (if start
                             (concat (substring padded 0 start)
                                     (substring padded (+ start (length ours) -2)))
                           padded)
                         "\\(?:\n\n\\)+" "\\(?:\n\n\\)+")))))

(defun sessiond-compose-leave ()
  "Keep the draft before the buffer is killed.
What is on its way is a part of it until it is durable."
  (sessiond-compose-keep t)
  (let* ((id sessiond-session-id)
         (input (sessiond-compose-input))
         (state (sessiond-compose--state (and (not (string-blank-p input)) input)))
         (left (length sessiond-compose--pending)))
    (pcase-dolist (`(,_ ,_ ,entry) sessiond-compose--pending)
      (let ((done (sessiond--entry-on-result entry)))
        (setf (sessiond--entry-on-result entry)
              (lambda (result)
                (funcall done result)
                (when (zerop (cl-decf left))
                  (sessiond-set-state id state))))))))

(defun sessiond-compose--draft-failed (&optional before)
  "What to do if the draft could not be kept: retry after the next change.
BEFORE is what was kept of ours until then."
  (let ((buffer (current-buffer)))
    (lambda (error)
      (when (buffer-live-p buffer)
        (with-current-buffer buffer
          (setq sessiond-compose--draft before
                sessiond-compose--draft-refused t)))
      ;; The deletion of a session is reported elsewhere, and the text stays
      ;; where it is: there is nothing to add.
      (unless (equal (plist-get error :kind) "sessionNotFound")
        (message "sessiond: the draft was not kept: %s" (sessiond-error-text error))))))

(defun sessiond-compose-restore (draft)
  "Put DRAFT, text that was typed but not sent, or nil, into the input.
It stands before what was typed since."
  (setq sessiond-compose--draft (and (stringp draft) draft))
  (let* ((typed (sessiond-compose-input))
         (blank (string-blank-p typed))
         (at-end (>= (point) sessiond-compose--input)))
    (when (and sessiond-compose--draft
               (not (equal draft typed))
               (not (cl-find draft sessiond-compose--pending :key #'cadr :test #'equal)))
      (save-excursion
        (goto-char sessiond-compose--input)
        (when blank
          (delete-region (point) (point-max)))
        (insert draft (if blank "" "\n\n")))
      (when (and at-end blank)
        (goto-char (point-max))))
    (unless blank
      (sessiond-compose--keep-soon))))

(provide 'sessiond-compose)
;;; sessiond-compose.el ends here
