;;; sessiond-notes.el --- The scratchpad of a session  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 the sessiond authors

;; Author: the sessiond authors
;; SPDX-License-Identifier: MIT

;;; Commentary:

;; Besides its messages, a session has notes, each under a heading.  A note
;; belongs to the whole session, or to one of its threads.  `sessiond-notes'
;; shows them, live; `sessiond-note' writes one.
;;
;; For an agent that runs in Emacs: `sessiond-context' collects what it should
;; know before its next turn, that is the newest messages and notes, so many of
;; each kind, and `sessiond-last-tick' says where it left off.

;;; Code:

(require 'cl-lib)
(require 'sessiond)
(require 'sessiond-commands)

;;; The scratchpad

(defvar-local sessiond-notes--notes nil "The notes shown, oldest first.")
(defvar-local sessiond-notes--listener nil "What listens to the session for us.")

(defvar sessiond-notes-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "a") #'sessiond-note)
    map)
  "Keys of `sessiond-notes-mode'.")

(define-derived-mode sessiond-notes-mode special-mode "Session-Notes"
  "The notes of a session, by heading.

\\{sessiond-notes-mode-map}"
  :interactive nil
  (setq-local outline-regexp "\\* "
              outline-level (lambda () 1)
              imenu-generic-expression '((nil "^\\* \\(.+\\)" 1))
              mode-line-process
              '(" " (:eval (sessiond-mode-line sessiond-session-id))))
  (visual-line-mode)
  (add-hook 'kill-buffer-hook #'sessiond-notes--leave nil t))

(defun sessiond-notes--leave ()
  "Stop listening to the session."
  (when sessiond-notes--listener
    (sessiond-detach sessiond-session-id sessiond-notes--listener)))

;;;###autoload
(defun sessiond-notes (&optional id)
  "Show the notes of a session.
ID is the session's, by default that of the current buffer."
  (interactive (sessiond-with-errors (list (sessiond-current))))
  (sessiond-with-errors
    (let* ((id (or id (sessiond-current)))
           (buffer (get-buffer-create (format "*sessiond notes %s*" id))))
      (with-current-buffer buffer
        (unless sessiond-notes--listener
          (sessiond-notes-mode)
          (setq sessiond-session-id id
                sessiond-notes--listener
                (lambda (event data)
                  (when (buffer-live-p buffer)
                    (with-current-buffer buffer
                      (sessiond-notes--hear event data))))))
        ;; A session that was deleted may have been restored since.
        (unless (sessiond-attached-p id sessiond-notes--listener)
          (sessiond-attach id sessiond-notes--listener 1)))
      (pop-to-buffer buffer))))

(defun sessiond-notes--hear (event data)
  "EVENT with DATA has happened to the session, see `sessiond-attach'."
  (pcase event
    ('opened (setq sessiond-notes--notes (append (plist-get data :notes) nil))
             (sessiond-notes--draw))
    ('changed
     (let ((new (cl-loop for change in data
                         when (equal (plist-get change :kind) "note")
                         collect (plist-get change :note))))
       (when new
         (mapc #'sessiond-notes--add new)
         (sessiond-notes--draw))))
    ('failed (sessiond-tell-error data))
    ('deleted (message "sessiond: %s was deleted" sessiond-session-id)))
  (force-mode-line-update))

(defun sessiond-notes--add (note)
  "Add NOTE to those that are shown, once and in its place."
  (unless (cl-find (plist-get note :id) sessiond-notes--notes :test #'equal
                   :key (lambda (one) (plist-get one :id)))
    (setq sessiond-notes--notes
          (cl-sort (cons note sessiond-notes--notes) #'<
                   :key (lambda (one) (plist-get one :seq))))))

(defun sessiond-notes--draw ()
  "Redraw the buffer, and keep point's line."
  (let ((inhibit-read-only t)
        (line (line-number-at-pos)))
    (erase-buffer)
    (insert (if sessiond-notes--notes
                (sessiond-notes-text sessiond-notes--notes)
              "No notes yet; `a' writes one.\n"))
    (goto-char (point-min))
    (while (re-search-forward "^\\* .+" nil t)
      (put-text-property (match-beginning 0) (match-end 0) 'face 'bold))
    (goto-char (point-min))
    (forward-line (1- line))))

;;;###autoload
(defun sessiond-note (heading content &optional thread id)
  "Write a note with CONTENT under HEADING.
With THREAD, a string that is not empty, it belongs to that
thread; interactively, a prefix argument asks for it.  ID is the
session's, by default that of the current buffer."
  (interactive
   (sessiond-with-errors
     (let* ((id (sessiond-current))
            (notes (sessiond-notes-list id))
            (names (lambda (key)
                     (delete-dups
                      (delq nil (mapcar (lambda (note) (plist-get note key)) notes))))))
       (list (completing-read "Heading: " (funcall names :heading))
             (read-string "Note: ")
             (and current-prefix-arg
                  (completing-read "Thread: " (funcall names :thread)))
             id))))
  (when (string-blank-p heading)
    (user-error "A note needs a heading"))
  (sessiond-with-errors
    (sessiond-add-note (or id (sessiond-current)) heading content
                       :thread (and thread (not (string-blank-p thread)) thread)
                       :on-result (lambda (_) (message "Noted under %s" heading)))))

;;; For agents

(cl-defun sessiond-notes-list (id &key thread last-global last-thread)
  "The notes of session ID, oldest first; waits as `sessiond-call' does.
Without THREAD, all of them.  With it, those of the whole session
and those of THREAD: of the former the newest LAST-GLOBAL, of the
latter the newest LAST-THREAD, if given.  THREAD t means only the
notes of the whole session."
  (if thread
      (append (plist-get (sessiond-call
                          'note/list
                          `( :sessionId ,id
                             ,@(and (stringp thread) `(:thread ,thread))
                             ,@(and last-global `(:lastGlobal ,last-global))
                             ,@(and last-thread `(:lastThread ,last-thread))))
                         :notes)
              nil)
    ;; note/list returns one thread at a time; opening returns all.
    (prog1 (append (plist-get (sessiond-call 'session/open (list :sessionId id :last 0))
                              :notes)
                   nil)
      (unless (sessiond-info id)
        (sessiond-request 'session/close (list :sessionId id) :on-error #'ignore)))))

(defun sessiond-notes-text (notes)
  "NOTES, a list, as text: by heading, and by thread under it."
  (let ((groups nil))
    (dolist (note notes)
      (let ((key (list (plist-get note :heading) (plist-get note :thread))))
        (push note (alist-get key groups nil nil #'equal))))
    (mapconcat (lambda (group)
                 (pcase-let ((`((,heading ,thread) . ,members) group))
                   (format "* %s%s\n%s\n" (sessiond-clean heading)
                           (if thread (format "  [%s]" (sessiond-clean thread)) "")
                           (mapconcat (lambda (note)
                                        (concat (string-trim-right
                                                 (plist-get note :content))
                                                "\n"))
                                      (reverse members) ""))))
               (nreverse groups) "")))

(cl-defun sessiond-context (id &key thread (messages 20) (global 20) (notes 20))
  "What an agent should know before the next turn of session ID, as text.
The newest MESSAGES messages; the newest GLOBAL notes of the whole
session; and, if THREAD is a string, the newest NOTES notes of that
thread.  A number of 0 leaves that kind out.  Waits as
`sessiond-call' does."
  (let* ((said (plist-get (sessiond-call 'session/read
                                         (list :sessionId id :last messages))
                          :messages))
         (noted (sessiond-notes-list id :thread (or thread t)
                                     :last-global global :last-thread notes)))
    (concat
     (unless (null noted)
       (concat "# Notes\n\n" (sessiond-notes-text noted)))
     (unless (seq-empty-p said)
       (concat "# Conversation\n\n"
               (mapconcat (lambda (message)
                            (format "%s: %s\n\n" (plist-get message :role)
                                    (sessiond-content-text
                                     (plist-get message :content))))
                          said ""))))))

(defun sessiond-last-tick (id)
  "The highest tick among the newest messages and the notes of session ID.
Nil if there is none.  Waits as `sessiond-call' does."
  (let* ((read (sessiond-call 'session/read (list :sessionId id :last 200)))
         (ticks (mapcar (lambda (one) (plist-get one :tick))
                        (append (plist-get read :messages)
                                (sessiond-notes-list id)
                                nil)))
         (ticks (delq nil ticks)))
    (and ticks (apply #'max ticks))))

(provide 'sessiond-notes)
;;; sessiond-notes.el ends here
