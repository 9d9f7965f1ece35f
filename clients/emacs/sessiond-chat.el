;;; sessiond-chat.el --- A buffer for one conversation  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 the sessiond authors

;; Author: the sessiond authors
;; SPDX-License-Identifier: MIT

;;; Commentary:

;; A chat buffer shows one session, live (sessiond-transcript.el), and below it
;; a place to type (sessiond-compose.el).  This file ties them together: the
;; mode, what happens to the session, older messages, and the commands that
;; open a chat.
;;
;; Start with `sessiond-new' or `sessiond-switch'.  In the buffer, `C-c C-c'
;; sends and `C-h m' shows the rest.

;;; Code:

(require 'cl-lib)
(require 'sessiond)
(require 'sessiond-transcript)
(require 'sessiond-compose)
(require 'sessiond-commands)

(defcustom sessiond-chat-messages 200
  "How many of the newest messages a chat buffer shows at first."
  :group 'sessiond
  :type 'natnum)

(defconst sessiond-chat--page 1000
  "How many earlier messages are read at once at most.")

(defvar-local sessiond-chat--listener nil "What listens to the session for us.")
(defvar-local sessiond-chat--target nil "The seq that was asked for, or nil.")
(defvar-local sessiond-chat--words nil "Words to mark in that message.")


;;; The mode

(autoload 'sessiond-notes "sessiond-notes" nil t)
(autoload 'sessiond-search "sessiond-search" nil t)

(defvar sessiond-chat-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "C-c C-c") #'sessiond-send)
    (define-key map (kbd "C-c RET") #'sessiond-send)
    (define-key map (kbd "C-c C-n") #'sessiond-new)
    (define-key map (kbd "C-c C-s") #'sessiond-switch)
    (define-key map (kbd "C-c C-f") #'sessiond-search)
    (define-key map (kbd "C-c C-r") #'sessiond-name)
    (define-key map (kbd "C-c C-t") #'sessiond-tag)
    (define-key map (kbd "C-c C-a") #'sessiond-archive)
    (define-key map (kbd "C-c C-y") #'sessiond-answer)
    (define-key map (kbd "C-c C-o") #'sessiond-fork)
    (define-key map (kbd "C-c C-v") #'sessiond-resume)
    (define-key map (kbd "C-c C-e") #'sessiond-chat-earlier)
    (define-key map (kbd "C-c C-q") #'sessiond-close)
    (define-key map (kbd "C-c TAB") #'sessiond-chat-unfold)
    (define-key map (kbd "C-c C-z") #'sessiond-notes)
    (define-key map [remap save-buffer] #'sessiond-save)
    (define-key map (kbd "M-n") #'sessiond-transcript-next)
    (define-key map (kbd "M-p") #'sessiond-transcript-previous)
    map)
  "Keys of `sessiond-chat-mode'.")

(put 'sessiond-send :advertised-binding (kbd "C-c C-c"))

(define-derived-mode sessiond-chat-mode text-mode "Session"
  "A conversation kept by the sessiond daemon.
Type below the line and send with \\[sessiond-send].

\\{sessiond-chat-mode-map}"
  :interactive nil
  (setq-local outline-regexp (regexp-quote sessiond-transcript-mark)
              outline-level (lambda () 1)
              imenu-create-index-function #'sessiond-transcript-index
              imenu-space-replacement nil
              ;; The name stands in the brackets; and it is the daemon that saves.
              mode-line-buffer-identification "session"
              mode-line-modified ""
              mode-line-process '((:eval (sessiond-chat--mode-line)))
              scroll-conservatively 101
              bookmark-make-record-function #'sessiond-chat--bookmark)
  (visual-line-mode)
  (let ((inhibit-read-only t))
    (erase-buffer))
  (sessiond-transcript-setup)
  (sessiond-compose-setup)
  (buffer-disable-undo)
  (buffer-enable-undo)
  (add-hook 'after-change-functions #'sessiond-compose--typed nil t)
  (add-hook 'post-command-hook #'sessiond-chat--at-top nil t)
  (add-hook 'kill-buffer-hook #'sessiond-chat--leave nil t))

(defun sessiond-chat--mode-line ()
  "The session in the mode line."
  (concat " " (sessiond-mode-line sessiond-session-id)
          (cond ((stringp sessiond-compose--deleted) " moved")
                (sessiond-compose--deleted " deleted"))))

(defun sessiond-chat-buffer (id)
  "The chat buffer of session ID, or nil."
  (cl-find-if (lambda (buffer)
                (with-current-buffer buffer
                  (and (derived-mode-p 'sessiond-chat-mode)
                       (equal sessiond-session-id id))))
              (buffer-list)))

(defun sessiond-chat-open (id &optional seq words)
  "Show session ID in its chat buffer; with SEQ, go to that message.
WORDS are marked in it.  Returns the buffer at once; the messages
follow."
  (let ((buffer (or (sessiond-chat-buffer id) (sessiond-chat--make id))))
    (with-current-buffer buffer
      (sessiond-chat--listen)
      (setq sessiond-chat--target seq
            sessiond-chat--words words)
      (if (and seq sessiond-compose--opened)
          (sessiond-chat--seek)
        (goto-char (point-max))))
    (pop-to-buffer-same-window buffer)
    buffer))

(defun sessiond-chat--make (id)
  "Make a chat buffer for session ID and start filling it."
  (let ((buffer (generate-new-buffer (format "*sessiond %s*" id))))
    (condition-case err
        (with-current-buffer buffer
          (sessiond-chat-mode)
          (setq sessiond-session-id id
                sessiond-chat--listener
                (lambda (event data)
                  (when (buffer-live-p buffer)
                    (with-current-buffer buffer
                      (sessiond-chat--hear event data)))))
          (sessiond-chat--listen)
          buffer)
      (sessiond-error
       (kill-buffer buffer)
       (signal (car err) (cdr err))))))


(defun sessiond-chat--listen ()
  "Listen to the session of this buffer, unless we do.
A session that was deleted may have been restored, and one that could
not be opened may be readable again."
  (unless (sessiond-attached-p sessiond-session-id sessiond-chat--listener)
    (sessiond-attach sessiond-session-id sessiond-chat--listener sessiond-chat-messages)))

;;; What happens to the session

(defun sessiond-chat--hear (event data)
  "EVENT with DATA has happened to the session, see `sessiond-attach'."
  (pcase event
    ('opened (sessiond-chat--show data))
    ('changed (mapc #'sessiond-chat--apply data))
    ('deleted (setq sessiond-compose--deleted (or data t))
              (sessiond-compose-return-all)
              (message (if data
                           "sessiond: %s was moved elsewhere, and is %s now"
                         "sessiond: %s was deleted elsewhere; what you typed is still here")
                       (buffer-name) data))
    ('failed (sessiond-compose-return-all)
             (message "sessiond: %s cannot be opened: %s"
                      sessiond-session-id (sessiond-error-text data)))
    ('unreachable (sessiond-compose-return-all)))
  (force-mode-line-update))

(defun sessiond-chat--show (result)
  "Show the RESULT of opening the session."
  (sessiond-transcript-reset (plist-get result :messages)
                             (eq (plist-get result :hasMore) t))
  (seq-doseq (message (plist-get result :messages))
    (sessiond-compose-arrived (plist-get message :id)))
  (sessiond-chat--rename (plist-get result :session))
  (when sessiond-compose--deleted
    (setq sessiond-compose--deleted nil)
    (sessiond-compose--keep-soon))
  (if sessiond-compose--opened
      (sessiond-compose-heard
       (list sessiond-compose--key
             (plist-get (plist-get result :state) sessiond-compose--key)))
    (setq sessiond-compose--opened t)
    (sessiond-compose-restore
     (plist-get (plist-get result :state) sessiond-compose--key))
    (seq-doseq (warning (plist-get result :warnings))
      (message "sessiond: %s:%s: %s" (plist-get warning :path)
               (plist-get warning :line) (plist-get warning :message))))
  (when sessiond-chat--target
    (sessiond-chat--seek)))

(defun sessiond-chat--apply (change)
  "Show CHANGE of the session."
  (pcase (plist-get change :kind)
    ("appended" (seq-doseq (message (plist-get change :messages))
                  (sessiond-compose-arrived (plist-get message :id))
                  (sessiond-transcript-add message)))
    ("extended" (let ((id (plist-get change :messageId)))
                  (when (eq (sessiond-transcript-extend
                             id (plist-get change :text) (plist-get change :offset))
                            'gap)
                    (sessiond-chat--fetch id))))
    ("finished" (let ((id (plist-get change :messageId)))
                  (sessiond-transcript-mark-as id (plist-get change :status))
                  (when (plist-get change :toolCalls)
                    (sessiond-chat--fetch id))))
    ("updated" (sessiond-chat--rename (plist-get change :session)))
    ("state" (unless (plist-get change :ours)
               (sessiond-compose-heard (plist-get change :values))))
    ("cleared" (sessiond-transcript-reset nil nil))
    ("truncated" (sessiond-transcript-cut (plist-get change :afterSeq)))))

(defun sessiond-chat--fetch (id)
  "Read message ID once more and show it as it is."
  (when-let* ((seq (gethash id sessiond-transcript--seqs)))
    (sessiond-chat--ask
     'session/read (list :since (1- seq) :limit 1)
     (lambda (result)
       (seq-doseq (message (plist-get result :messages))
         (sessiond-transcript-replace message))))))

(defun sessiond-chat--ask (method params function &optional on-error)
  "Ask for METHOD with PARAMS of this session.
FUNCTION gets the result in this buffer, if it is still there;
ON-ERROR is as in `sessiond-request'."
  (let ((buffer (current-buffer)))
    (sessiond-request method `(:sessionId ,sessiond-session-id ,@params)
                      :on-error on-error
                      :on-result (lambda (result)
                                   (when (buffer-live-p buffer)
                                     (with-current-buffer buffer
                                       (funcall function result)))))))

(defun sessiond-chat--rename (info)
  "Rename the buffer after the session in INFO."
  (let ((name (format "*sessiond %s*" (sessiond-title info))))
    (unless (string-prefix-p name (buffer-name))
      (rename-buffer name t))))


;;; Earlier messages

(defun sessiond-chat-earlier (&optional all)
  "Show earlier messages; with prefix argument ALL, all of them."
  (interactive "P")
  (if sessiond-transcript--more
      (sessiond-chat--read-earlier
       (if all sessiond-chat--page sessiond-chat-messages)
       (lambda () (when (and all sessiond-transcript--more)
                    (sessiond-chat-earlier all))))
    (when (called-interactively-p 'interactive)
      (message "This is the beginning of the session"))))

(defvar-local sessiond-chat--reading nil "Non-nil while earlier messages are read.")

(defun sessiond-chat--read-earlier (count then)
  "Read COUNT earlier messages, and call THEN."
  (unless sessiond-chat--reading
    (setq sessiond-chat--reading t)
    (sessiond-chat--ask
     'session/read (list :before (or (sessiond-transcript-oldest) 0) :limit count)
     (lambda (result)
       (setq sessiond-chat--reading nil)
       (sessiond-transcript-prepend (plist-get result :messages)
                                    (eq (plist-get result :hasMore) t))
       (funcall then))
     (let ((buffer (current-buffer)))
       (lambda (error)
         (when (buffer-live-p buffer)
           (with-current-buffer buffer
             (setq sessiond-chat--reading nil)))
         (sessiond-tell-error error))))))

(defun sessiond-chat--at-top ()
  "Show earlier messages when point reaches the top."
  (when (and sessiond-transcript--more
             (not sessiond-chat--reading)
             (sessiond-connected-p)
             (bobp)
             (not (eq this-command 'sessiond-chat-earlier)))
    (sessiond-chat-earlier)))

(defun sessiond-chat-unfold ()
  "Show all of the message at point, or fold what is long in it again."
  (interactive nil sessiond-chat-mode)
  (sessiond-transcript-unfold (point) t))

(defun sessiond-chat--seek ()
  "Go to the requested message, reading as far back as needed."
  (let ((oldest (sessiond-transcript-oldest)))
    (if (and sessiond-transcript--more oldest (> oldest sessiond-chat--target))
        (sessiond-chat--read-earlier sessiond-chat--page #'sessiond-chat--seek)
      (sessiond-chat--arrive))))

(defun sessiond-chat--arrive ()
  "Go to the requested message, which is shown now."
  (when-let* ((position (sessiond-transcript-position sessiond-chat--target)))
    (goto-char position)
    (sessiond-transcript-unfold position)
    (sessiond-transcript-mark-found sessiond-chat--words sessiond-chat--target)
    ;; At the top, so that the text is seen and not the heading alone.
    (dolist (window (get-buffer-window-list nil nil t))
      (set-window-point window position)
      (set-window-start window position))
    (setq sessiond-chat--target nil)))


;;; Leaving, and coming back

(defun sessiond-chat--leave ()
  "Keep the draft, and have the session saved and closed."
  (when (and sessiond-session-id sessiond-chat--listener)
    (unless sessiond-compose--deleted
      (sessiond-compose-leave)
      (when (and (sessiond-connected-p) sessiond-compose--opened)
        (sessiond-save-quietly sessiond-session-id)))
    (sessiond-detach sessiond-session-id sessiond-chat--listener)))

(defun sessiond-chat--may-leave-emacs ()
  "Whether leaving Emacs loses nothing that was typed, or the user agrees."
  (let ((lost (cl-find-if (lambda (buffer)
                            (with-current-buffer buffer
                              (and (derived-mode-p 'sessiond-chat-mode)
                                   (sessiond-compose-lost-p))))
                          (buffer-list))))
    (or (not (or lost (and (sessiond-pending-p) (not (sessiond-connected-p)))))
        (yes-or-no-p (format "The sessiond daemon does not have what you typed%s; leave Emacs anyway? "
                             (if lost (concat " in " (buffer-name lost)) ""))))))

(add-hook 'kill-emacs-query-functions #'sessiond-chat--may-leave-emacs)

(defun sessiond-chat--leave-emacs ()
  "Keep all drafts, and wait a moment for the daemon to have them."
  (dolist (buffer (buffer-list))
    (with-current-buffer buffer
      (when (and (derived-mode-p 'sessiond-chat-mode) sessiond-chat--listener)
        (ignore-errors (sessiond-chat--leave)))))
  (let ((deadline (+ (float-time) 1)))
    (while (and (sessiond-pending-p) (sessiond-connected-p)
                (< (float-time) deadline))
      (accept-process-output nil 0.05))))

(add-hook 'kill-emacs-hook #'sessiond-chat--leave-emacs)

(declare-function bookmark-prop-get "bookmark" (bookmark prop))

(defun sessiond-chat--bookmark ()
  "A bookmark of this session."
  `(,(sessiond-title (or (sessiond-info sessiond-session-id)
                         (list :sessionId sessiond-session-id)))
    (session . ,sessiond-session-id)
    (handler . sessiond-chat-jump)))

;;;###autoload
(defun sessiond-chat-jump (bookmark)
  "Show the session of BOOKMARK."
  (require 'bookmark)
  (sessiond-chat-open (bookmark-prop-get bookmark 'session)))


;;; Commands that open a chat buffer

;;;###autoload
(defun sessiond-new (&optional name)
  "Start a new conversation, called NAME if that is not empty.
Interactively, ask for NAME with a prefix argument.  The session
that the current buffer belongs to is saved."
  (interactive (list (and current-prefix-arg (read-string "Name: "))))
  (sessiond-with-errors
    (when sessiond-session-id
      (sessiond-save-quietly sessiond-session-id))
    (let ((result (sessiond-call
                   'session/new
                   `( ,@(unless (file-remote-p default-directory)
                          `(:cwd ,(expand-file-name default-directory)))
                      ,@(and name (not (string-blank-p name)) `(:name ,name))))))
      (sessiond-chat-open (plist-get (plist-get result :session) :sessionId)))))

;;;###autoload
(defun sessiond-switch (id)
  "Show session ID in a chat buffer.
Interactively, choose it with completion; with a prefix argument,
from the archived ones.  The session that the current buffer
belongs to is saved."
  (interactive
   (sessiond-with-errors
     (list (sessiond-read-session "Session: " (and current-prefix-arg
                                                   '(:archived t))))))
  (sessiond-with-errors
    (when (and sessiond-session-id (not (equal id sessiond-session-id)))
      (sessiond-save-quietly sessiond-session-id))
    (sessiond-chat-open id)))

(defun sessiond-close ()
  "Leave this conversation: save it, and kill its buffer."
  (interactive)
  (if (derived-mode-p 'sessiond-chat-mode)
      (kill-buffer)
    (user-error "This is not a chat buffer")))

(provide 'sessiond-chat)
;;; sessiond-chat.el ends here
