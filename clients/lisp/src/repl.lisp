;;;; A conversation at the Lisp prompt. The commands are functions of a REPL object, so any other loop can have them too.

(in-package "SESSIOND")

(defclass repl ()
  ((client :initarg :client :reader repl-client)
   (own-client :initarg :own-client :initform nil :reader repl-own-client)
   (session :initform nil :accessor repl-session)
   (auto-save :initform nil :accessor repl-auto-save)
   (listener :initform nil :accessor repl-listener)
   (reply :initarg :reply :initform nil :reader repl-reply)
   (output :initarg :output :reader repl-output)))

(defun make-repl (&key client session-id name (auto-save-interval 300) reply (output *standard-output*))
  "A conversation in the session SESSION-ID, or in a new one. REPLY is called with (session write) after everything that
is said; what it gives to the function WRITE is the assistant's reply, as it comes; a string that it returns is one too."
  (let ((repl (make-instance 'repl :client (or client (connect)) :own-client (null client) :reply reply :output output)))
    (handler-bind ((error (lambda (condition)
                            (declare (ignore condition))
                            (when (repl-own-client repl) (disconnect (repl-client repl))))))
      (enter repl (if session-id
                      (open-session (repl-client repl) session-id)
                      (new-session (repl-client repl) :name name))))
    (setf (repl-auto-save repl) (start-auto-save (repl-session repl) :interval auto-save-interval))
    repl))

(defun enter (repl session)
  "SESSION is the one of this conversation from here on."
  (setf (repl-session repl) session
        (repl-listener repl) (add-listener session (lambda (kind change session)
                                                     (declare (ignore session))
                                                     (tell repl kind change))))
  (when (repl-auto-save repl)
    (setf (auto-save-session (repl-auto-save repl)) session))
  (say-line repl "Session ~A~@[ ~S~], ~D messages" (session-id session) (session-name session)
            (ref (session-info session) "messageCount"))
  session)

(defun leave-session (repl)
  (let ((session (repl-session repl)))
    (save-session session)
    (remove-listener session (repl-listener repl))
    (close-session session)))

(defun close-repl (repl)
  "The thread has ended, the session is saved; the connection is closed if it was made for this. Says how to come back."
  (when (repl-auto-save repl)
    (stop-auto-save (repl-auto-save repl))
    (setf (repl-auto-save repl) nil))
  (let ((id (session-id (repl-session repl))))
    (leave-session repl)
    (when (repl-own-client repl) (disconnect (repl-client repl)))
    (say-line repl "Session ~A is saved. To go on: (sessiond:start-repl :session-id ~S)" id id)
    id))

(defun say-line (repl control &rest arguments)
  (format (repl-output repl) "~&~?~%" control arguments)
  (force-output (repl-output repl)))

(defun tell (repl kind change)
  "What somebody else did."
  (case kind
    (:appended
     (loop for message across (ref change "messages")
           do (say-line repl "~A: ~A" (ref message "role") (printable (text-of message)))))
    (:extended (format (repl-output repl) "~A" (printable (ref change "text"))) (force-output (repl-output repl)))
    (:finished (say-line repl "(~A)" (or (ref change "status") "done")))
    (:cleared (say-line repl "(cleared)"))
    (:truncated (say-line repl "(taken back after #~D)" (ref change "afterSeq")))
    (:deleted (say-line repl "(this session was deleted; what is said now cannot be kept)"))))

(defun printable (text)
  "Without characters that a terminal would obey."
  (remove-if (lambda (char)
               (let ((code (char-code char)))
                 (and (or (< code 32) (<= 127 code 159) (<= #x202A code #x202E) (<= #x2066 code #x2069))
                      (not (member char '(#\Newline #\Tab))))))
             text))

;;; Commands

(defvar *commands* '()
  "Name -> (function of the REPL and the rest of the line, what it does).")

(defmacro define-command (name (repl rest) about &body body)
  `(setf *commands*
         (append (remove ,name *commands* :key #'first :test #'string=)
                 (list (list ,name (lambda (,repl ,rest) (declare (ignorable ,repl ,rest)) ,@body) ,about)))))

(define-command "sessions" (repl rest) "[PART OF THE NAME] lists sessions, the newest first"
  (dolist (info (list-sessions (repl-client repl) :name (and (plusp (length rest)) rest)))
    (say-line repl "~:[ ~;*~] ~A  ~A  ~D messages  ~@[~A~]"
              (string= (ref info "sessionId") (session-id (repl-session repl)))
              (ref info "sessionId") (ref info "updatedAt") (ref info "messageCount")
              (and (ref info "name") (printable (ref info "name"))))))

(define-command "save" (repl rest) "brings the session file up to date"
  (multiple-value-bind (path octets) (save-session (repl-session repl))
    (if path
        (say-line repl "Saved ~A (~D bytes)" path octets)
        (say-line repl "Nothing to save"))))

(define-command "load" (repl rest) "ID saves this session and goes on with that one"
  (when (string= rest "")
    (error 'sessiond-error :kind "invalidParams" :message "which one?" :hint "/load ID; /sessions lists them"))
  (unless (string= rest (session-id (repl-session repl)))
    (save-session (repl-session repl))
    (let ((next (open-session (repl-client repl) rest)))
      (leave-session repl)
      (enter repl next))))

(define-command "new" (repl rest) "[NAME] saves this session and begins another one"
  (leave-session repl)
  (enter repl (new-session (repl-client repl) :name (and (plusp (length rest)) rest))))

(define-command "reset" (repl rest) "saves this session, then empties it under the same id"
  (reset-session (repl-session repl))
  (say-line repl "Session ~A is empty now" (session-id (repl-session repl))))

(define-command "name" (repl rest) "NAME gives this session a name"
  (name-session (repl-session repl) rest)
  (say-line repl "Session ~A is ~S now" (session-id (repl-session repl)) rest))

(define-command "search" (repl rest) "WORDS finds messages in all sessions"
  (multiple-value-bind (hits total) (search-sessions (repl-client repl) rest)
    (dolist (hit hits)
      (say-line repl "~A #~D  ~A" (ref hit "sessionId") (ref hit "seq") (printable (ref hit "snippet"))))
    (say-line repl "~D found" total)))

(define-command "help" (repl rest) "shows this list"
  (loop for (name nil about) in *commands* do (say-line repl "/~A ~A" name about)))

(define-command "quit" (repl rest) "saves, leaves, and says how to come back"
  :quit)

(defun handle-command (repl line)
  "Do what a line that begins with a slash says. :QUIT where it says to leave. SESSIOND-ERROR where it fails."
  (let* ((blank (position #\Space line))
         (name (subseq line 1 blank))
         (found (find name *commands* :key #'first :test #'string=)))
    (unless found
      (error 'sessiond-error :kind "invalidParams" :message (format nil "there is no command /~A" name) :hint "/help"))
    (eq (funcall (second found) repl (string-trim " " (if blank (subseq line blank) ""))) :quit)))

(defun handle-input (repl line)
  "A command, or something that is said. True where it says to leave."
  (cond ((string= (string-trim " " line) "") nil)
        ((and (char= (char line 0) #\/) (not (eql (search "//" line) 0))) (handle-command repl line))
        (t (say (repl-session repl) (if (char= (char line 0) #\/) (subseq line 1) line))
           (when (repl-reply repl) (answer repl))
           nil)))

(defun answer (repl)
  (let ((output (repl-output repl)))
    (format output "~&")
    (with-reply (write-text (repl-session repl))
      (flet ((out (text)
               (format output "~A" (printable text))
               (force-output output)
               (write-text text)))
        (let ((whole (funcall (repl-reply repl) (repl-session repl) #'out)))
          (when (stringp whole) (out whole)))))
    (format output "~&")))

(defun start-repl (&key client session-id name (auto-save-interval 300) reply
                     (input *standard-input*) (output *standard-output*))
  "Talk till /quit or the end of INPUT. Returns the session's id, which :SESSION-ID resumes."
  (let ((repl (make-repl :client client :session-id session-id :name name :auto-save-interval auto-save-interval
                         :reply reply :output output)))
    (unwind-protect
         (loop for line = (progn (format output "~&> ") (force-output output) (read-line input nil nil))
               until (or (null line)
                         (handler-case (handle-input repl line)
                           (sessiond-error (problem)
                             (say-line repl "~A" problem)
                             nil))))
      (close-repl repl))
    (session-id (repl-session repl))))
