;;;; A conversation at the Lisp prompt. The commands are functions of a REPL object, so other loops can use them too.
;;;;
;;;; Typed text is never lost: the lines of a message that continues in the next line are a draft from the moment they
;;;; are entered, and a message that could not be sent is kept as one and sent again by /send, with the same id.

(in-package "SESSIOND")

(defconstant +shown-messages+ 20
  "Messages that are shown when a session is entered; /older shows more.")

(defclass repl ()
  ((client :initarg :client :reader repl-client)
   (own-client :initarg :own-client :initform nil :reader repl-own-client)
   (session :initform nil :accessor repl-session)
   (auto-save :initform nil :accessor repl-auto-save)
   (listener :initform nil :accessor repl-listener)
   (reply :initarg :reply :initform nil :reader repl-reply)
   (oldest :initform nil :accessor repl-oldest :documentation "Seq of the oldest message that was shown, if any.")
   (sharing :initform nil :accessor repl-sharing :documentation "What was shown last of the hub of the session's store.")
   (asking :initform nil :accessor repl-asking :documentation "Whether a prompt stands there and waits for a line.")
   (begun :initform '() :accessor repl-begun :documentation "Lines of a message that is not complete, newest first.")
   (unsaid :initform nil :accessor repl-unsaid
           :documentation "NIL, or (text id session-id) of what could not be said; ID is NIL where it never was sent.")
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
  "Switch this conversation to SESSION."
  (setf (repl-session repl) session
        (repl-listener repl) (add-listener session (lambda (kind change session)
                                                     (declare (ignore session))
                                                     (tell repl kind change))))
  (when (repl-auto-save repl)
    (setf (auto-save-session (repl-auto-save repl)) session))
  (say-line repl "Session ~A~@[ ~S~], ~D messages" (session-id session) (session-name session)
            (ref (session-info session) "messageCount"))
  (setf (repl-oldest repl) nil
        (repl-sharing repl) (sharing-state (hub-status session)))
  (show-older repl +shown-messages+)
  (let ((draft (draft session)))
    (when (plusp (length draft))
      (put-aside repl draft nil)))
  session)

(defun show-older (repl count)
  "Show the COUNT messages before the oldest one shown. Returns how many there were."
  (let ((session (repl-session repl)))
    (flet ((older ()
             (remove-if (lambda (message) (and (repl-oldest repl) (>= (ref message "seq") (repl-oldest repl))))
                        (session-messages session))))
      (let ((known (older)))
        (when (< (length known) count)
          (load-older session (- count (length known)))
          (setf known (older)))
        (let ((shown (subseq known (max 0 (- (length known) count)))))
          (map nil (lambda (message) (show repl message)) shown)
          (when (plusp (length shown))
            (setf (repl-oldest repl) (ref shown 0 "seq")))
          (length shown))))))

(defun leave-session (repl)
  "Save and close it. Failures are only reported: everything sent is in the daemon's journal."
  (let ((session (repl-session repl)))
    (remove-listener session (repl-listener repl))
    (handler-case (progn (save-session session) (close-session session))
      (sessiond-error (problem)
        (forget session)
        (unless (string= (sessiond-error-kind problem) "sessionNotFound")
          (say-line repl "~A" problem))))))

(defun close-repl (repl)
  "End the thread and save the session; close the connection if it was made for this. Says how to come back."
  (when (repl-auto-save repl)
    (stop-auto-save (repl-auto-save repl) :save nil) ; leaving saves
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
  "Show another client's change."
  (case kind
    (:appended
     (loop for message across (ref change "messages")
           do (show repl message)))
    (:extended (format (repl-output repl) "~A" (printable (ref change "text"))) (force-output (repl-output repl)))
    (:finished (say-line repl "(~A)" (or (ref change "status") "done")))
    (:cleared (say-line repl "(cleared)"))
    (:truncated (say-line repl "(taken back after #~D)" (ref change "afterSeq")))
    (:deleted (say-line repl "(this session was deleted; /new begins another one)"))
    (:hub (setf kind (show-hub repl change))))
  (when (and (repl-asking repl) (told-whole-p kind change))
    (show-prompt repl)))

(defun told-whole-p (kind change)
  "Whether the output ended a line, so that the prompt can be shown again."
  (case kind
    (:appended (not (equal (ref change "messages" 0 "status") "streaming")))
    ((:finished :cleared :truncated :deleted :hub) t)))

(defun sharing-state (hub)
  (list (ref hub "state") (plusp (or (ref hub "pending") 0))))

(defun show-hub (repl change)
  "Say that the hub is lost or back, or that changes wait or no longer do. Returns :HUB if a line was said."
  (let ((state (sharing-state (ref change "hub"))))
    (unless (equal state (shiftf (repl-sharing repl) state))
      (say-line repl "(~A: ~A)" (ref change "store") (hub-words (ref change "hub")))
      :hub)))

(defun show-prompt (repl)
  (format (repl-output repl) "~&~A" (prompt repl))
  (force-output (repl-output repl)))

(defun show (repl message)
  (let ((author (ref message "author")))
    (say-line repl "~A~@[ (~A)~]: ~A" (ref message "role") (and (stringp author) (printable author))
              (printable (text-of message)))))

(defun printable (text)
  "Without characters that control a terminal."
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

(defun doing (activity)
  "What goes on in a session with this ACTIVITY, or NIL if nothing does."
  (when activity
    (if (string= (ref activity "state") "waiting")
        (printable (format nil "waits~@[: ~A~]" (ref activity "waitingFor")))
        "works")))

(define-command "sessions" (repl rest) "[PART OF THE NAME] lists sessions, the newest first"
  (dolist (info (list-sessions (repl-client repl) :name (and (plusp (length rest)) rest)))
    (say-line repl "~:[ ~;*~] ~A  ~A  ~D messages  ~@[~A  ~]~@[~A~]"
              (string= (ref info "sessionId") (session-id (repl-session repl)))
              (ref info "sessionId") (ref info "updatedAt") (ref info "messageCount")
              (doing (ref info "activity"))
              (printable (format nil "~@[~A~]~{ #~A~}" (ref info "name") (coerce (ref info "tags") 'list))))))

(define-command "save" (repl rest) "brings the session file up to date"
  (multiple-value-bind (path octets) (save-session (repl-session repl))
    (if path
        (say-line repl "Saved ~A (~D bytes)" path octets)
        (say-line repl "Nothing to save"))))

(define-command "load" (repl rest) "ID saves this session and opens that one"
  (when (string= rest "")
    (error 'sessiond-error :kind "invalidParams" :message "which one?" :hint "/load ID; /sessions lists them"))
  (unless (string= rest (session-id (repl-session repl)))
    (switch repl (lambda () (open-session (repl-client repl) rest)))))

(defun switch (repl next)
  "Save and leave this session for the one that NEXT returns. If NEXT fails this one remains."
  (let ((session (repl-session repl)))
    (handler-case (save-session session)
      (sessiond-error (problem)
        (unless (string= (sessiond-error-kind problem) "sessionNotFound") ; nothing is left to save
          (say-line repl "~A" problem)))))
  (let ((entered (funcall next)))
    (leave-session repl)
    (enter repl entered)))

(define-command "new" (repl rest) "[NAME] saves this session and starts another one"
  (switch repl (lambda () (new-session (repl-client repl) :name (and (plusp (length rest)) rest)))))

(define-command "fork" (repl rest) "[NAME] saves this session and continues in a copy of it"
  (switch repl (lambda () (fork-session (repl-session repl) :name (and (plusp (length rest)) rest)))))

(define-command "reset" (repl rest) "saves this session, then empties it; the id stays"
  (reset-session (repl-session repl))
  (say-line repl "Session ~A is empty now" (session-id (repl-session repl))))

(define-command "name" (repl rest) "NAME gives this session a name"
  (name-session (repl-session repl) rest)
  (say-line repl "Session ~A is ~S now" (session-id (repl-session repl)) rest))

(define-command "tag" (repl rest) "[TAG ... -TAG ...] adds and removes tags, or shows them"
  (let* ((session (repl-session repl))
         (before (coerce (ref (session-info session) "tags") 'list))
         (tags before))
    (dolist (word (uiop:split-string rest))
      (cond ((string= word ""))
            ((char= (char word 0) #\-) (setf tags (remove (subseq word 1) tags :test #'string=)))
            (t (setf tags (append (remove word tags :test #'string=) (list word))))))
    (unless (equal tags before)
      (apply #'tag-session session tags))
    (say-line repl "Tags: ~:[none~;~:*~{~A~^ ~}~]" (mapcar #'printable tags))))

(define-command "archive" (repl rest) "[off] removes this session from the lists; off: brings it back"
  (archive-session (repl-session repl) (string/= rest "off"))
  (say-line repl "Session ~A is ~:[archived~;listed~] now" (session-id (repl-session repl)) (string= rest "off")))

(define-command "answer" (repl rest) "[ANSWER] answers what an agent asks, here or in the one session that waits, or shows what is asked"
  (let* ((asked (asked-sessions (repl-client repl)))
         (own (find (session-id (repl-session repl)) asked :key (lambda (info) (ref info "sessionId")) :test #'string=))
         (meant (or own (and (null (rest asked)) (first asked)))))
    (cond ((null asked) (say-line repl "Nothing is asked in any session"))
          ((string= rest "") (mapc (lambda (info) (show-question repl info)) asked))
          ((null meant)
           (error 'sessiond-error :kind "invalidParams" :message "several sessions wait" :hint "/load ID, then /answer"))
          ((answer-agent (repl-client repl) meant rest) (say-line repl "Answered"))
          (t (say-line repl "This was answered before, or it is not asked any more")))))

(defun show-question (repl info)
  "A line for what an agent asks in the session of INFO, with the choices."
  (let ((activity (ref info "activity")))
    (say-line repl "~A  ~A~{  ~A~}" (ref info "sessionId")
              (printable (format nil "~A: ~A" (ref activity "client") (or (ref activity "text") (ref activity "waitingFor") "?")))
              (map 'list (lambda (choice) (printable (format nil "~A (~A)" (ref choice "id") (ref choice "label"))))
                   (or (ref activity "question" "choices") #())))))

(define-command "older" (repl rest) "[N] shows the N messages (20) before the oldest one that was shown"
  (when (zerop (show-older repl (max 1 (or (parse-integer rest :junk-allowed t) +shown-messages+))))
    (say-line repl "This is the beginning")))

(define-command "send" (repl rest) "sends the message that could not be sent, or that was typed but not sent last time"
  (let ((unsaid (repl-unsaid repl)))
    (unless unsaid
      (error 'sessiond-error :kind "invalidParams" :message "there is nothing that was not said"))
    (destructuring-bind (text id session-id) unsaid
      (say-kept repl text (and (equal session-id (session-id (repl-session repl))) id)))))

(define-command "drop" (repl rest) "discards the message that could not be sent"
  (setf (repl-unsaid repl) nil)
  (keep-draft (repl-session repl) ""))

(define-command "search" (repl rest) "WORDS finds messages in all sessions"
  (multiple-value-bind (hits total) (search-sessions (repl-client repl) rest)
    (dolist (hit hits)
      (say-line repl "~A #~D  ~A" (ref hit "sessionId") (ref hit "seq") (printable (ref hit "snippet"))))
    (say-line repl "~D found" total)))

(define-command "help" (repl rest) "shows this list"
  (loop for (name nil about) in *commands* do (say-line repl "/~A ~A" name about)))

(define-command "quit" (repl rest) "saves, leaves, and says how to resume"
  :quit)

(defun handle-command (repl line)
  "Carry out a line that begins with a slash. Returns :QUIT to leave. SESSIOND-ERROR if it fails."
  (let* ((blank (position #\Space line))
         (name (subseq line 1 blank))
         (found (find name *commands* :key #'first :test #'string=)))
    (unless found
      (error 'sessiond-error :kind "invalidParams" :message (format nil "there is no command /~A" name) :hint "/help"))
    (eq (funcall (second found) repl (string-trim " " (if blank (subseq line blank) ""))) :quit)))

(defun handle-input (repl line)
  "A command or a message; a backslash at the end of LINE continues it in the next one. True if it says to
leave."
  (cond ((and (plusp (length line)) (char= (char line (1- (length line))) #\\))
         (push (subseq line 0 (1- (length line))) (repl-begun repl))
         (keep-draft (repl-session repl) (begun-text repl))
         nil)
        ((repl-begun repl)
         (push line (repl-begun repl))
         (let ((text (begun-text repl)))
           (setf (repl-begun repl) '())
           (say-kept repl text)))
        ((string= (string-trim " " line) "") nil)
        ((and (char= (char line 0) #\/) (not (eql (search "//" line) 0))) (handle-command repl line))
        (t (say-kept repl (if (char= (char line 0) #\/) (subseq line 1) line)))))

(defun begun-text (repl)
  (format nil "~{~A~^~%~}" (reverse (repl-begun repl))))

(defun say-kept (repl text &optional (id (fresh-id "m")))
  "Send TEXT, and have it answered. If that fails it is set aside under its ID: it may nevertheless be durable."
  (let ((session (repl-session repl))
        (id (or id (fresh-id "m"))))
    (handler-bind ((sessiond-error (lambda (problem)
                                     (declare (ignore problem))
                                     (put-aside repl text id))))
      (say session text :id id))
    (when (repl-unsaid repl)
      (setf (repl-unsaid repl) nil))
    (when (plusp (length (draft session)))
      (keep-draft session ""))
    (when (repl-reply repl) (answer repl))
    nil))

(defun put-aside (repl text id)
  "Keep TEXT, which was typed and is not in the session."
  (setf (repl-unsaid repl) (list text id (session-id (repl-session repl))))
  (keep-draft (repl-session repl) text)
  (say-line repl "Not sent: ~A~%/send sends it, /drop forgets it" (printable text)))

(defun prompt (repl)
  "[NAME:COUNT]> , or blanks of that length where a message goes on. In a shared store it says what SHARING-LABEL does."
  (let ((text (format nil "~A~:[ offline~;~@[ ~A~]~]> " (session-label (repl-session repl))
                      (connected-p (repl-client repl)) (sharing-label (repl-session repl)))))
    (if (repl-begun repl) (make-string (length text) :initial-element #\Space) text)))

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

(defun ask-for-line (repl input)
  "A line, or NIL at the end of INPUT."
  (show-prompt repl)
  (setf (repl-asking repl) t)
  (unwind-protect (read-line input nil nil)
    (setf (repl-asking repl) nil)))

(defun start-repl (&key client session-id name (auto-save-interval 300) reply
                     (input *standard-input*) (output *standard-output*))
  "Talk until /quit or the end of INPUT. Returns the session's id, which :SESSION-ID resumes."
  (let ((repl (make-repl :client client :session-id session-id :name name :auto-save-interval auto-save-interval
                         :reply reply :output output)))
    (unwind-protect
         (loop for line = (ask-for-line repl input)
               until (or (null line)
                         (handler-case (handle-input repl line)
                           (sessiond-error (problem)
                             (say-line repl "~A" problem)
                             nil))))
      (close-repl repl))
    (session-id (repl-session repl))))
