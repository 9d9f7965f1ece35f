;;; agent-q.el --- the file format of Agent-Q, for tests  -*- lexical-binding: t; -*-

;; Keeps sessions as the system itself does: structs in memory, one `session-*.el' each, written whole by `pp' and read by `read' behind
;; the comment lines.  Written from the description of the format.

;;; Code:

(require 'cl-lib)
(require 'json)

(cl-defstruct aq-session id name created-at updated-at model messages metadata)
(cl-defstruct aq-message id role content timestamp context-snapshot metadata)

(defconst aq-message-keys
  '((:id . aq-message-id) (:role . aq-message-role) (:content . aq-message-content) (:timestamp . aq-message-timestamp)
    (:context-snapshot . aq-message-context-snapshot) (:metadata . aq-message-metadata)))

(defun aq-write (session directory)
  "Write SESSION, whose messages are newest first, into DIRECTORY."
  (with-temp-file (expand-file-name (concat (aq-session-id session) ".el") directory)
    (insert ";; -*- mode: emacs-lisp; lexical-binding: t; -*-\n;; Agent-Q Session\n;; Created: "
            (format-time-string "%Y-%m-%d %H:%M:%S" (aq-session-created-at session)) "\n")
    (when (aq-session-name session)
      (insert ";; Name: " (aq-session-name session) "\n"))
    (insert "\n")
    (pp (list :version 1 :id (aq-session-id session) :name (aq-session-name session)
              :created-at (aq-session-created-at session) :updated-at (aq-session-updated-at session)
              :model (aq-session-model session)
              :messages (mapcar (lambda (message)
                                  (cl-loop for (key . get) in aq-message-keys
                                           append (list key (funcall get message))))
                                (reverse (aq-session-messages session)))
              :metadata (aq-session-metadata session))
        (current-buffer))))

(defun aq-read (id directory)
  "The session ID in DIRECTORY."
  (with-temp-buffer
    (insert-file-contents (expand-file-name (concat id ".el") directory))
    (goto-char (point-min))
    (while (looking-at "^;") (forward-line 1))
    (let ((plist (read (current-buffer))))
      (cl-flet ((of (key) (plist-get plist key)))
        (make-aq-session
         :id (of :id) :name (of :name) :created-at (of :created-at) :updated-at (of :updated-at) :model (of :model)
         :metadata (of :metadata)
         :messages (reverse
                    (mapcar (lambda (message)
                              (apply #'make-aq-message
                                     (cl-loop for (key . _) in aq-message-keys append (list key (plist-get message key)))))
                            (of :messages))))))))

(defun aq-listed (file)
  "What a list shows of FILE: (NAME . CREATED) from the comments in its first 1000 bytes."
  (with-temp-buffer
    (insert-file-contents file nil 0 1000)
    (goto-char (point-min))
    (let (name created)
      (while (looking-at "^;; \\(.*\\)")
        (let ((line (match-string 1)))
          (cond ((string-prefix-p "Name: " line) (setq name (substring line 6)))
                ((string-prefix-p "Created: " line) (setq created (substring line 9)))))
        (forward-line 1))
      (cons name created))))

;; What the tests call.

(defun aq--ms (time)
  (car (time-convert time 1000)))

(defun aq--null (text)
  (or text :null))

(defun aq--report (session listed)
  (list :id (aq-session-id session) :name (aq--null (aq-session-name session)) :model (aq--null (aq-session-model session))
        :created (aq--ms (aq-session-created-at session)) :updated (aq--ms (aq-session-updated-at session))
        :metadata (prin1-to-string (aq-session-metadata session))
        :listed (vector (aq--null (car listed)) (aq--null (cdr listed)))
        :messages (vconcat
                   (mapcar (lambda (message)
                             (list :id (aq--null (aq-message-id message)) :role (symbol-name (aq-message-role message))
                                   :content (aq-message-content message) :time (aq--ms (aq-message-timestamp message))
                                   :metadata (prin1-to-string (aq-message-metadata message))
                                   :context (prin1-to-string (aq-message-context-snapshot message))))
                           (reverse (aq-session-messages session))))))

(defun aq-report (directory out)
  "Write what every session in DIRECTORY says, as JSON, to OUT."
  (let ((found (mapcar (lambda (file)
                         (aq--report (aq-read (file-name-base file) directory) (aq-listed file)))
                       (directory-files directory t "\\`session-.*\\.el\\'")))
        (coding-system-for-write 'utf-8-unix))
    (with-temp-file out
      (insert (decode-coding-string (json-serialize (vconcat found)) 'utf-8)))))

(defun aq--parsed (file)
  (let ((coding-system-for-read 'utf-8-unix))
    (with-temp-buffer
      (insert-file-contents file)
      (json-parse-buffer :object-type 'plist :null-object nil))))

(defun aq--message (wire)
  (make-aq-message :id (plist-get wire :id) :role (intern (plist-get wire :role)) :content (plist-get wire :content)
                   :timestamp (time-convert (cons (plist-get wire :time) 1000) 'list)
                   :metadata (car (read-from-string (or (plist-get wire :metadata) "nil")))))

(defun aq-create (in directory)
  "Make the sessions that the JSON file IN describes, and save them in DIRECTORY."
  (cl-loop for wire across (aq--parsed in)
           for time = (time-convert (cons (plist-get wire :created) 1000) 'list)
           do (aq-write (make-aq-session :id (plist-get wire :id) :name (plist-get wire :name) :model (plist-get wire :model)
                                         :created-at time :updated-at time
                                         :messages (reverse (mapcar #'aq--message (plist-get wire :messages))))
                        directory)))

(defun aq-resave (in directory)
  "Load the sessions that IN names from DIRECTORY, add the messages that IN has for them, and save them."
  (cl-loop for wire across (aq--parsed in)
           for session = (aq-read (plist-get wire :id) directory)
           do (dolist (one (append (plist-get wire :messages) nil))
                (push (aq--message one) (aq-session-messages session)))
           (aq-write session directory)))

;;; agent-q.el ends here
