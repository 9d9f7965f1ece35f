;;; sessiond-commands.el --- Choose a session, and do something to it  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 the sessiond authors

;; Author: the sessiond authors
;; SPDX-License-Identifier: MIT

;;; Commentary:

;; Commands that work on the session of the current buffer, whatever shows it
;; there: a chat, its notes, a gptel buffer.  Elsewhere they ask which one.

;;; Code:

(require 'cl-lib)
(require 'crm)
(require 'sessiond)

(declare-function sessiond-chat-open "sessiond-chat" (id &optional seq words))
(declare-function sessiond-transcript-seq-at "sessiond-transcript" (position))

;;; Completion

(defun sessiond--doing (activity)
  "The words for a session's ACTIVITY in a list, or nil if it has none."
  (when activity
    (let ((for (plist-get activity :waitingFor)))
      (cond ((not (equal (plist-get activity :state) "waiting")) "works")
            (for (concat "waits: " (sessiond-clean for)))
            (t "waits")))))

(defun sessiond--annotation (info)
  "The text next to the session of INFO in completion."
  (concat
   "  "
   (propertize " " 'display '(space :align-to 44))
   (propertize (sessiond-local-time (plist-get info :updatedAt))
               'face 'completions-annotations)
   (propertize (format "  %5s" (or (plist-get info :messageCount) "?"))
               'face 'completions-annotations)
   (let ((doing (sessiond--doing (plist-get info :activity))))
     (if doing (propertize (concat "  " doing) 'face 'warning) ""))
   (propertize (mapconcat (lambda (tag) (concat "  #" (sessiond-clean tag)))
                          (plist-get info :tags) "")
               'face 'completions-annotations)))

(defconst sessiond--shown-id 26
  "So many characters of an id are shown at least.
Those that sessiond makes are shorter, and whole.")

(defun sessiond--short-ids (sessions)
  "A hash table from the ids of SESSIONS to their beginnings.
Each is just long enough that none of the others begins with it."
  (let ((short (make-hash-table :test #'equal))
        (before ""))
    (cl-loop
     for (id next) on (sort (mapcar (lambda (info) (plist-get info :sessionId)) sessions)
                            #'string<)
     ;; Of all others, those beside it have most in common with it.
     do (let ((size (min (length id) sessiond--shown-id)))
          (while (and (< size (length id))
                      (or (string-prefix-p (substring id 0 size) before)
                          (string-prefix-p (substring id 0 size) (or next ""))))
            (cl-incf size))
          (puthash id (substring id 0 size) short)
          (setq before id)))
    short))

(defun sessiond--candidates (sessions)
  "A hash table from candidates for completion to SESSIONS.
A candidate is the title, with how the id begins if the title is not unique."
  (let ((titles (make-hash-table :test #'equal))
        (short (sessiond--short-ids sessions))
        (table (make-hash-table :test #'equal)))
    (dolist (info sessions)
      (cl-incf (gethash (sessiond-title info) titles 0)))
    (dolist (info sessions table)
      (let ((title (sessiond-title info)))
        (puthash (if (= (gethash title titles) 1)
                     title
                   (format "%s <%s>" title (gethash (plist-get info :sessionId) short)))
                 info table)))))

(defun sessiond-read-session (prompt &optional filter)
  "Ask with PROMPT for a session, and return its id.
FILTER is as in `sessiond-list'."
  (let* ((sessions (sessiond-list filter))
         (candidates (sessiond--candidates sessions)))
    (unless sessions
      (user-error "There are no %ssessions" (if filter "matching " "")))
    (let ((choice (completing-read prompt (sessiond--table candidates) nil t)))
      (plist-get (or (gethash choice candidates)
                     (user-error "No session was chosen"))
                 :sessionId))))

(defun sessiond--table (candidates)
  "A completion table of CANDIDATES, in the order in which they were added."
  (let ((names (hash-table-keys candidates)))
    (lambda (string predicate action)
      (if (eq action 'metadata)
          `(metadata
            (category . sessiond-session)
            (annotation-function
             . ,(lambda (name)
                  (when-let* ((info (gethash name candidates)))
                    (sessiond--annotation info))))
            (display-sort-function . identity)
            (cycle-sort-function . identity))
        (complete-with-action action names string predicate)))))

(defun sessiond-current ()
  "The id of the session of the current buffer; elsewhere ask for one."
  (or sessiond-session-id
      (sessiond-read-session "Session: ")))

(defun sessiond--known-info (id)
  "The SessionInfo of session ID."
  (or (sessiond-info id)
      (cl-find id (sessiond-list) :test #'equal
               :key (lambda (info) (plist-get info :sessionId)))
      (list :sessionId id)))

;;; Commands

;;;###autoload
(defun sessiond-name (name &optional id)
  "Give a session the name NAME; an empty NAME means none.
ID is the session's, by default that of the current buffer."
  (interactive
   (sessiond-with-errors
     (let* ((id (sessiond-current))
            (old (plist-get (sessiond--known-info id) :name)))
       (list (read-string "Name: " old) id))))
  (sessiond-with-errors
    (let ((name (string-trim name)))
      (sessiond-update (or id (sessiond-current))
                       (list :name (and (not (string-empty-p name)) name))
                       :on-result (lambda (_) (message "Named: %s" name))))))

;;;###autoload
(defun sessiond-tag (tags &optional id)
  "Give a session TAGS, a list, instead of the ones that it has.
ID is the session's, by default that of the current buffer."
  (interactive
   (sessiond-with-errors
     (let* ((id (sessiond-current))
            (sessions (sessiond-list))
            (known (delete-dups
                    (apply #'append
                           (mapcar (lambda (info)
                                     (append (plist-get info :tags) nil))
                                   sessions))))
            (own (append (plist-get (sessiond--known-info id) :tags) nil)))
       (list (completing-read-multiple "Tags (separated by commas): " known nil nil
                                       (string-join own ","))
             id))))
  (sessiond-with-errors
    (let ((tags (delete-dups (delete "" (mapcar #'string-trim tags)))))
      (sessiond-update (or id (sessiond-current)) (list :tags (vconcat tags))
                       :on-result (lambda (_)
                                    (message "Tags: %s" (if tags (string-join tags ", ")
                                                          "none")))))))

;;; What agents ask

(defun sessiond-commands--asked ()
  "The sessions in which an agent asks something, as SessionInfo plists."
  (seq-filter (lambda (info)
                (plist-get (plist-get info :activity) :question))
              (sessiond-list '(:activity "waiting"))))

(defun sessiond-commands--choose-asked (asked)
  "One of ASKED: the current session, the only one, or the one chosen."
  (or (cl-find sessiond-session-id asked :test #'equal
               :key (lambda (info) (plist-get info :sessionId)))
      (and (null (cdr asked)) (car asked))
      (let ((candidates (sessiond--candidates asked)))
        (or (gethash (completing-read "Answer in: " (sessiond--table candidates) nil t)
                     candidates)
            (user-error "No session was chosen")))))

(defun sessiond-commands--read-answer (activity)
  "Ask what ACTIVITY asks, and return the answer for `session/answer'."
  (let* ((prompt (sessiond-clean
                  (format "%s: %s " (plist-get activity :client)
                          (or (plist-get activity :text)
                              (plist-get activity :waitingFor) "?"))))
         (choices (mapcar (lambda (choice)
                            (cons (sessiond-clean (plist-get choice :label))
                                  (plist-get choice :id)))
                          (plist-get (plist-get activity :question) :choices))))
    (if choices
        (list :choice
              (or (cdr (assoc (completing-read prompt choices nil t) choices))
                  (user-error "Nothing was answered")))
      (let ((text (read-string prompt)))
        (when (string-blank-p text)
          (user-error "Nothing was answered"))
        (list :text text)))))

;;;###autoload
(defun sessiond-answer (session question answer)
  "Answer an agent.
SESSION and QUESTION are ids; ANSWER is a plist with the id of a
`:choice', or with a `:text'.  Interactively, ask what is asked in
the session of the current buffer, or else in one that waits."
  (interactive
   (sessiond-with-errors
     (let* ((info (sessiond-commands--choose-asked
                   (or (sessiond-commands--asked)
                       (user-error "Nothing is asked in any session"))))
            (activity (plist-get info :activity)))
       (list (plist-get info :sessionId)
             (plist-get (plist-get activity :question) :id)
             (sessiond-commands--read-answer activity)))))
  (sessiond-with-errors
    (let ((result (sessiond-call 'session/answer
                                 `(:sessionId ,session :questionId ,question ,@answer))))
      (message (if (eq (plist-get result :accepted) t)
                   "Answered"
                 "This was answered before, or it is not asked any more")))))

;;;###autoload
(defun sessiond-archive (&optional back id)
  "Archive a session, so that lists leave it out.
With prefix argument BACK, bring it back.  ID is the
session's, by default that of the current buffer."
  (interactive
   (sessiond-with-errors
     (list current-prefix-arg
           (or sessiond-session-id
               (sessiond-read-session "Session: "
                                      (and current-prefix-arg '(:archived t)))))))
  (sessiond-with-errors
    (sessiond-update (or id (sessiond-current))
                     (list :archived (if back :json-false t))
                     :on-result (lambda (_)
                                  (message (if back "No longer archived" "Archived"))))))

(defun sessiond-save-quietly (id)
  "Bring the file of session ID up to date."
  (when (> (or (plist-get (sessiond-info id) :messageCount) 1) 0)
    (sessiond-request 'session/save (list :sessionId id))))

;;;###autoload
(defun sessiond-save (&optional id)
  "Bring the file of a session up to date now.
ID is the session's, by default that of the current buffer."
  (interactive (sessiond-with-errors (list (sessiond-current))))
  (sessiond-with-errors
    (sessiond-request
     'session/save (list :sessionId (or id (sessiond-current)))
     :on-result (lambda (result)
                  (message "Saved: %s"
                           (mapconcat (lambda (saved) (plist-get saved :path))
                                      (plist-get result :saved) ", "))))))

;;;###autoload
(defun sessiond-fork (&optional id seq name)
  "Continue from here in a new session, and leave this one as it is.
ID is the session's, by default that of the current buffer; SEQ is
the last message that the new one has, by default the one at
point, or all.  It gets the name NAME, or the same one if that is
empty."
  (interactive
   (sessiond-with-errors
     (list (sessiond-current)
           (and (derived-mode-p 'sessiond-chat-mode)
                (sessiond-transcript-seq-at (point)))
           (read-string "Name of the fork (empty: the same): "))))
  (sessiond-with-errors
    (let* ((result (sessiond-call 'session/fork
                                  `( :sessionId ,(or id (sessiond-current))
                                     ,@(and seq `(:atSeq ,seq))
                                     ,@(and name (not (string-blank-p name))
                                            `(:name ,(string-trim name))))))
           (info (plist-get result :session)))
      (sessiond-chat-open (plist-get info :sessionId))
      (let ((count (plist-get info :messageCount)))
        (message "Forked with %s message%s" count (if (eql count 1) "" "s"))))))

(declare-function term-mode "term")
(declare-function term-char-mode "term")
(defvar sessiond-server)

(defconst sessiond-resume-tools
  '("aider" "claude" "cline" "codex" "gemini" "llm" "opencode" "pi" "qwen")
  "The tools that can go on with a session.")

(defun sessiond-commands--read-tool ()
  "Ask for a tool.
Those that are installed come first; the others say that they are
not."
  (let* ((there (seq-filter #'executable-find sessiond-resume-tools))
         (ordered (append there (seq-difference sessiond-resume-tools there)))
         (missing (lambda (tool)
                    (unless (member tool there) "  (not installed)")))
         (metadata `(metadata (annotation-function . ,missing)
                              (display-sort-function . identity)
                              (cycle-sort-function . identity))))
    (completing-read "Go on in: "
                     (lambda (string predicate action)
                       (if (eq action 'metadata)
                           metadata
                         (complete-with-action action ordered string
                                               predicate)))
                     nil t)))

;;;###autoload
(defun sessiond-resume (tool &optional id copy-only)
  "Go on with a session in TOOL, in a terminal.
ID is the session's, by default that of the current buffer.  With
COPY-ONLY, interactively a prefix argument, only put the command
into the kill ring."
  (interactive
   (sessiond-with-errors
     (let ((id (sessiond-current)))
       (list (sessiond-commands--read-tool) id current-prefix-arg))))
  (sessiond-with-errors
    (unless (stringp (car-safe sessiond-server))
      (user-error "Resuming needs a daemon on this machine, not one over TCP"))
    (let* ((id (or id (sessiond-current)))
           (command (append sessiond-server
                            (list "resume" id "--in" tool "--run"))))
      (if copy-only
          (progn
            (kill-new (mapconcat #'shell-quote-argument command " "))
            (message "%s" (current-kill 0)))
        (sessiond-commands--in-terminal (format "%s in %s" id tool) command)))))

(defun sessiond-commands--in-terminal (name command)
  "Run COMMAND, a list of words, in a terminal buffer called NAME."
  (require 'term)
  (let ((buffer (apply #'make-term name (car command) nil (cdr command))))
    (with-current-buffer buffer
      (term-mode)
      (term-char-mode))
    (pop-to-buffer buffer)))

;;;###autoload
(defun sessiond-delete (&optional id)
  "Move a session to the daemon's trash.
ID is the session's, by default that of the current buffer."
  (interactive
   (sessiond-with-errors
     (let ((id (sessiond-current)))
       (unless (yes-or-no-p (format "Delete the session %s? "
                                    (sessiond-title (sessiond--known-info id))))
         (user-error "Nothing was deleted"))
       (list id))))
  (sessiond-with-errors
    (sessiond-call 'session/delete (list :sessionId (or id (sessiond-current))))
    (message "Deleted; `sessiond restore %s' brings it back" (or id sessiond-session-id))))

;;;###autoload
(defun sessiond-send-region (beg end id)
  "Send the text between BEG and END to session ID.
Interactively, ask which session."
  (interactive
   (sessiond-with-errors
     (list (region-beginning) (region-end)
           (sessiond-read-session "Send to session: "))))
  (sessiond-with-errors
    (let ((text (buffer-substring-no-properties beg end)))
      (when (string-blank-p text)
        (user-error "There is nothing to send"))
      (sessiond-append id (list (list :role "user" :content text))
                       :on-result (lambda (_) (message "Sent to %s" id))))))

(provide 'sessiond-commands)
;;; sessiond-commands.el ends here
