;;; sessiond-gptel.el --- Keep gptel conversations in sessions  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 the sessiond authors

;; Author: the sessiond authors
;; SPDX-License-Identifier: MIT

;;; Commentary:

;; `sessiond-gptel-mode' keeps a buffer that is used with gptel in a session:
;; what you send, and the responses while they arrive.  Other tools see both
;; live.  To enable it everywhere:
;;
;;     (add-hook 'gptel-mode-hook #'sessiond-gptel-mode)
;;
;; It uses only gptel's public hooks, so gptel need not be installed when
;; this file is loaded: `gptel-post-request-hook', `gptel-post-stream-hook',
;; `gptel-post-response-functions' and `gptel-save-state-hook', and the text
;; property `gptel' with which gptel marks responses.
;;
;; The rules of this file:
;;
;; 1. Everything up to `sessiond-gptel--kept' is in the session, or on its way
;;    there.  The session only grows: text that is edited later stays as it
;;    was sent.
;; 2. A prompt is the text from there to point when sending, or to the
;;    beginning of the response, whichever we learn first.
;; 3. A response that grows is a message with status "streaming"; new text in
;;    the buffer is added to it a few times a second.
;; 4. A buffer that visits a file remembers its session in the file.

;;; Code:

(require 'cl-lib)
(require 'sessiond)

(defvar gptel-model)
(declare-function gptel-prompt-prefix-string "gptel" ())
(declare-function gptel-response-prefix-string "gptel" ())
(declare-function org-entry-get "org" (epom property &optional inherit literal-nil))
(declare-function org-entry-put "org" (epom property value))

(defconst sessiond-gptel--pause 0.2
  "Seconds between two pieces of a streamed response.")

(defvar-local sessiond-gptel-session nil
  "The session that this buffer is kept in, as its file remembers it.")
(put 'sessiond-gptel-session 'safe-local-variable #'stringp)

(defvar-local sessiond-gptel--kept nil "Everything before this is in the session.")
(defvar-local sessiond-gptel--reply nil
  "The response under way: a list (ID BEG LENGTH TIME), or nil.
BEG is a marker, LENGTH how much of it was sent, TIME when.")
(defvar-local sessiond-gptel--queue nil
  "Messages that wait for the session to be made, newest first.")
(defvar-local sessiond-gptel--making nil "Non-nil while the session is made.")
(defvar-local sessiond-gptel--listener nil "What listens to the session for us.")

(defmacro sessiond-gptel--safely (&rest body)
  "Run BODY inside a hook of gptel, which our errors must not disturb."
  (declare (indent 0) (debug t))
  `(condition-case err
       (progn ,@body)
     (sessiond-error (message "sessiond: %s" (cadr err)))))

;;;###autoload
(define-minor-mode sessiond-gptel-mode
  "Keep this buffer's conversation with gptel in a session."
  :lighter (:eval (sessiond-gptel--lighter))
  (if sessiond-gptel-mode
      (sessiond-gptel--begin)
    (sessiond-gptel--end)))

(defconst sessiond-gptel--hooks
  '((gptel-post-request-hook . sessiond-gptel--sent)
    (gptel-post-stream-hook . sessiond-gptel--grown)
    (gptel-post-response-functions . sessiond-gptel--answered)
    (gptel-save-state-hook . sessiond-gptel--remember)
    (kill-buffer-hook . sessiond-gptel--end)
    (change-major-mode-hook . sessiond-gptel--end))
  "Our functions in hooks of gptel and of Emacs.")

(defun sessiond-gptel--lighter ()
  "The session in the mode line."
  (concat " " (if sessiond-session-id
                  (sessiond-mode-line sessiond-session-id)
                "[new]")))

(defun sessiond-gptel--begin ()
  "Start keeping this buffer, in the session its file names or a new one."
  (setq sessiond-gptel--kept (copy-marker (point-min))
        sessiond-gptel--reply nil
        sessiond-gptel--queue nil
        sessiond-gptel--making nil)
  (pcase-dolist (`(,hook . ,function) sessiond-gptel--hooks)
    (add-hook hook function nil t))
  (let ((known (sessiond-gptel--remembered)))
    (unless known
      (setq sessiond-gptel--queue (nreverse (sessiond-gptel--turns))))
    (set-marker sessiond-gptel--kept (sessiond-gptel--last-response-end))
    (sessiond-gptel--safely
      (if known
          (sessiond-gptel--attach known)
        (sessiond-gptel--make)))))

(defun sessiond-gptel--end ()
  "Stop keeping this buffer."
  (pcase-dolist (`(,hook . ,function) sessiond-gptel--hooks)
    (remove-hook hook function t))
  (when sessiond-gptel--listener
    (when sessiond-gptel--reply
      (sessiond-finish sessiond-session-id (car sessiond-gptel--reply)
                       :status "interrupted"))
    (when (sessiond-connected-p)
      (sessiond-request 'session/save (list :sessionId sessiond-session-id)))
    (sessiond-detach sessiond-session-id sessiond-gptel--listener))
  (setq sessiond-gptel--listener nil
        sessiond-gptel--reply nil
        sessiond-session-id nil))

(defun sessiond-gptel--make ()
  "Make a session for this buffer."
  (let ((buffer (current-buffer)))
    (sessiond-request
     'session/new
     `( :name ,(sessiond-clean (buffer-name))
        ,@(and (bound-and-true-p gptel-model) `(:model ,(format "%s" gptel-model))))
     :on-error (lambda (error)
                 (when (buffer-live-p buffer)
                   (with-current-buffer buffer
                     (setq sessiond-gptel--making nil)))
                 (sessiond-tell-error error))
     :on-result (lambda (result)
                  (when (buffer-live-p buffer)
                    (with-current-buffer buffer
                      (setq sessiond-gptel--making nil)
                      (when sessiond-gptel-mode
                        (sessiond-gptel--attach
                         (plist-get (plist-get result :session) :sessionId)))))))
    (setq sessiond-gptel--making t)))

(defun sessiond-gptel--attach (id)
  "Keep this buffer in session ID from now on."
  (let ((buffer (current-buffer)))
    (setq sessiond-session-id id
          sessiond-gptel-session id
          sessiond-gptel--listener
          (lambda (event data)
            (when (buffer-live-p buffer)
              (with-current-buffer buffer
                (sessiond-gptel--hear event data)))))
    (sessiond-attach id sessiond-gptel--listener 1)
    (let ((queue (nreverse sessiond-gptel--queue)))
      (setq sessiond-gptel--queue nil)
      (when queue
        (sessiond-append id queue)))))

(defun sessiond-gptel--hear (event data)
  "EVENT with DATA has happened to the session, see `sessiond-attach'."
  (pcase event
    ('deleted (message "sessiond: the session of %s was deleted" (buffer-name))
              (sessiond-gptel-mode -1))
    ('failed (sessiond-tell-error data)))
  (force-mode-line-update))


;;; The contents of the buffer

(defun sessiond-gptel--turns ()
  "The buffer up to its last response, as a list of messages."
  (let ((end (sessiond-gptel--last-response-end))
        (at (point-min))
        (turns nil))
    (while (< at end)
      (let* ((next (next-single-property-change at 'gptel nil end))
             (kind (get-text-property at 'gptel))
             (role (pcase kind ('response "assistant") ('nil "user")))
             (text (and role (sessiond-gptel--text at next role))))
        (when (and text (not (string-empty-p text)))
          (push (list :id (sessiond-new-id) :role role :content text) turns))
        (setq at next)))
    (nreverse turns)))

(defun sessiond-gptel--last-response-end ()
  "Where the last response in this buffer ends; its beginning if there is none."
  (let ((at (point-max)))
    (while (and (> at (point-min))
                (not (eq (get-text-property (1- at) 'gptel) 'response)))
      (setq at (previous-single-property-change at 'gptel nil (point-min))))
    at))

(defun sessiond-gptel--text (beg end role)
  "The text from BEG to END as ROLE said it, without gptel's prefixes."
  (let ((text (string-trim (buffer-substring-no-properties beg end))))
    (if (equal role "user")
        (sessiond-gptel--strip
         (sessiond-gptel--strip text 'gptel-prompt-prefix-string nil)
         'gptel-response-prefix-string t)
      text)))

(defun sessiond-gptel--strip (text function at-end)
  "TEXT without the prefix from gptel's FUNCTION, AT-END if that is set."
  (let ((prefix (and (fboundp function) (string-trim (or (funcall function) "")))))
    (cond ((or (null prefix) (string-empty-p prefix)) text)
          ((and at-end (string-suffix-p prefix text))
           (string-trim-right (substring text 0 (- (length prefix)))))
          ((and (not at-end) (string-prefix-p prefix text))
           (string-trim-left (substring text (length prefix))))
          (t text))))


;;; What gptel does

(defun sessiond-gptel--append (message)
  "Append MESSAGE to the session, or keep it until there is one."
  (sessiond-gptel--safely
    (if sessiond-session-id
        (sessiond-append sessiond-session-id (list message))
      (push message sessiond-gptel--queue)
      (unless sessiond-gptel--making
        (sessiond-gptel--make)))))

(defun sessiond-gptel--sent ()
  "A request was sent: the prompt is what is new before point."
  (sessiond-gptel--prompt (point)))

(defun sessiond-gptel--prompt (end)
  "The text between the kept part and END is a prompt, unless it is empty.
It ends where gptel has inserted something."
  (when (and (not sessiond-gptel--reply) (> end sessiond-gptel--kept))
    (let* ((end (or (text-property-not-all sessiond-gptel--kept end 'gptel nil) end))
           (text (sessiond-gptel--text sessiond-gptel--kept end "user")))
      (set-marker sessiond-gptel--kept end)
      (unless (string-empty-p text)
        (sessiond-gptel--append
         (list :id (sessiond-new-id) :role "user" :content text))))))

(defun sessiond-gptel--grown ()
  "A piece of the response was inserted before point."
  (when sessiond-session-id
    (if (not sessiond-gptel--reply)
        (sessiond-gptel--first-piece)
      (pcase-let ((`(,_id ,_beg ,_length ,time) sessiond-gptel--reply))
        (when (> (- (float-time) time) sessiond-gptel--pause)
          (sessiond-gptel--more (point)))))))

(defun sessiond-gptel--first-piece ()
  "The response begins with what was inserted before point."
  (let ((beg (previous-single-property-change (point) 'gptel nil
                                              sessiond-gptel--kept)))
    (when (< beg (point))
      (sessiond-gptel--prompt beg)
      (let ((text (buffer-substring-no-properties beg (point)))
            (id (sessiond-new-id)))
        (setq sessiond-gptel--reply
              (list id (copy-marker beg) (length text) (float-time)))
        (set-marker sessiond-gptel--kept (point))
        (sessiond-gptel--append
         (list :id id :role "assistant" :content text :status "streaming"))))))

(defun sessiond-gptel--more (end)
  "The response reaches END: send the new part of it."
  (pcase-let* ((`(,id ,beg ,length ,_time) sessiond-gptel--reply)
               (from (+ beg length)))
    (when (> end from)
      (let ((text (buffer-substring-no-properties from end)))
        (sessiond-extend sessiond-session-id id text length)
        (set-marker sessiond-gptel--kept end)
        (setq sessiond-gptel--reply
              (list id beg (+ length (length text)) (float-time)))))))

(defun sessiond-gptel--answered (beg end)
  "The response is between BEG and END; they are equal if it failed."
  (cond
   (sessiond-gptel--reply
    (sessiond-gptel--more end)
    (sessiond-finish sessiond-session-id (car sessiond-gptel--reply)
                     :status (if (< beg end) "done" "interrupted"))
    (setq sessiond-gptel--reply nil))
   ((< beg end)
    (sessiond-gptel--prompt beg)
    (let ((text (sessiond-gptel--text beg end "assistant")))
      (unless (string-empty-p text)
        (sessiond-gptel--append
         (list :id (sessiond-new-id) :role "assistant" :content text))))))
  (when (< beg end)
    (set-marker sessiond-gptel--kept end)))


;;; Remembering

(defun sessiond-gptel--remembered ()
  "The session that this buffer was kept in before, or nil."
  (or sessiond-gptel-session
      (and (derived-mode-p 'org-mode)
           (org-entry-get (point-min) "SESSIOND_SESSION"))))

(defun sessiond-gptel--remember ()
  "Record in the buffer which session it is kept in."
  (when sessiond-session-id
    (if (derived-mode-p 'org-mode)
        (org-entry-put (point-min) "SESSIOND_SESSION" sessiond-session-id)
      (save-excursion
        (add-file-local-variable 'sessiond-gptel-session sessiond-session-id)))))

(provide 'sessiond-gptel)
;;; sessiond-gptel.el ends here
