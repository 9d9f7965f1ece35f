;;;; A client: a connection that comes back, and the sessions that are open over it.
;;;;
;;;;   online ── the connection ends ──> reconnecting: the thread that saw it starts another one, again and again,
;;;;     ^                               opens every session since what it knows, and only then lets requests through
;;;;     └───────────────────────────────────┘
;;;;
;;;; It has two threads: one reads and keeps the sessions here up to date, one calls the listeners, in the order in which
;;;; the sessions changed, so that a listener may send requests and take its time. A third one keeps drafts, once there
;;;; are any.

(in-package "SESSIOND")

(defvar *attempts* 5
  "A request whose connection ends this many times is given up.")

(defparameter *once-only* '("session/new" "session/fork" "session/clear" "session/truncate")
  "Repeating these after a lost answer could act twice.")

(defconstant +protocol-version+ 1)
(defconstant +first-pause-s+ 1/20)
(defconstant +longest-pause-s+ 2)

(defclass client ()
  ((name :initarg :name :reader client-name)
   (connection :initform nil :accessor client-connection :documentation "NIL while there is none.")
   (lock :initform (bt:make-lock "sessiond client") :reader client-lock)
   (changed :initform (bt:make-condition-variable :name "sessiond client") :reader client-changed)
   (sessions :initform (make-hash-table :test #'equal) :reader client-sessions)
   (hubs :initform nil :accessor client-hubs :documentation "What is known of the hubs of shared stores: see hubs.lisp.")
   (closing :initform nil :accessor client-closing)
   (last-words :initform nil :accessor client-last-words :documentation "Why there is no connection, as far as known.")
   (waiting :initform '() :accessor client-waiting :documentation "Functions for the dispatcher, newest first.")
   (dispatcher :initform nil :accessor client-dispatcher)
   (drafter :initform nil :accessor client-drafter :documentation "The thread of drafts.lisp, once something was typed.")))

(defvar *clients* '() "Those that are connected.")
(defvar *clients-lock* (bt:make-lock "sessiond clients"))

(defun connect (&key (name "lisp"))
  "A client of this user's daemon, which is started if necessary. NAME is what others see. UNREACHABLE."
  (let ((client (make-instance 'client :name name)))
    (setf (client-connection client) (establish client)
          (client-dispatcher client)
          (bt:make-thread (lambda () (dispatch-all client)) :name "sessiond dispatcher"))
    (bt:with-lock-held (*clients-lock*) (push client *clients*))
    client))

(defun disconnect-all ()
  (mapc #'disconnect (copy-list *clients*)))

;; Lisp waits for threads before it exits, and a thread that reads would make it wait long.
(pushnew 'disconnect-all sb-ext:*exit-hooks*)

(defun connected-p (client)
  (and (client-connection client) t))

(defun disconnect (client)
  "End the connection and its threads. Drafts are kept; open sessions are saved by the daemon."
  (bt:with-lock-held (*clients-lock*) (setf *clients* (remove client *clients*)))
  (flush-drafts client)
  (let ((connection nil))
    (bt:with-lock-held ((client-lock client))
      (setf (client-closing client) t
            connection (client-connection client))
      (wake-client client))
    (when connection (close-connection connection))
    (dolist (thread (list (client-dispatcher client) (client-drafter client) (and connection (connection-reader connection))))
      (unless (or (null thread) (eq thread (bt:current-thread)))
        (ignore-errors (bt:join-thread thread)))))
  (values))

(defmacro with-client ((client &rest arguments) &body body)
  `(let ((,client (connect ,@arguments)))
     (unwind-protect (progn ,@body)
       (disconnect ,client))))

(defun wake-client (client)
  (loop repeat 64 do (bt:condition-notify (client-changed client))))

;;; Coming back

(defun establish (client)
  "A fresh connection on which a daemon answers. UNREACHABLE with the program's last output."
  (let* ((words nil)
         (hubs (make-instance 'hubs)) ; another daemon may know other things
         (connection nil))
    (bt:with-lock-held ((client-lock client)) (setf (client-hubs client) hubs))
    (setf connection (open-connection (lambda (method params)
                                        (if (string= method "store/hubChanged")
                                            (hear-hub client hubs params)
                                            (hear client method params)))
                                      (lambda (last-words)
                                        (setf words last-words)
                                        (lose client connection last-words))))
    (handler-case
        (progn
          (introduce client connection)
          (check-protocol (send-request connection "daemon/hello" (obj) :timeout *request-timeout*))
          connection)
      (sessiond-error (problem)
        (close-connection connection)
        (ignore-errors (bt:join-thread (connection-reader connection))) ; it has the last output
        (error 'unreachable :message (or words (sessiond-error-message problem))
                            :hint (or (and (null words) (sessiond-error-hint problem)) "run `sessiond doctor`"))))))

(defun check-protocol (hello)
  (let ((theirs (ref hello "protocolVersion")))
    (unless (eql theirs +protocol-version+)
      (error 'unreachable :message (format nil "the daemon speaks protocol ~A, this client ~D" theirs +protocol-version+)
                          :hint "update sessiond, then `sessiond stop`"))))

(defun introduce (client connection)
  "Say who we are. The answer is for editors, so we do not wait for it."
  (let ((params (obj "processId" :null "capabilities" (obj) "clientInfo" (obj :name (client-name client)))))
    (bt:with-lock-held ((connection-lock connection))
      (send-message connection (obj "jsonrpc" "2.0" "id" (incf (connection-last-id connection))
                                    "method" "initialize" "params" params)))))

(defun lose (client connection last-words)
  "Runs in the reader's thread, at the end of a connection. If it was the client's, this thread makes the next one."
  (when (bt:with-lock-held ((client-lock client))
          (when (and connection (eq connection (client-connection client)))
            (setf (client-connection client) nil
                  (client-last-words client) last-words)
            (not (client-closing client))))
    (come-back client)))

(defun come-back (client)
  (let ((pause +first-pause-s+))
    (loop until (client-closing client)
          do (handler-case
                 (let ((connection (establish client)))
                   (reattach-all client connection)
                   (bt:with-lock-held ((client-lock client))
                     (when (client-closing client)
                       (close-connection connection))
                     (when (connection-open-p connection)
                       (setf (client-connection client) connection)
                       (wake-client client)
                       (return))))
               (sessiond-error (problem)
                 (setf (client-last-words client) (princ-to-string problem))
                 (sleep pause)
                 (setf pause (min +longest-pause-s+ (* 2 pause))))))))

(defun reattach-all (client connection)
  (let ((sessions (bt:with-lock-held ((client-lock client))
                    (loop for session being the hash-values of (client-sessions client) collect session))))
    (dolist (session sessions)
      (reattach session connection))))

;;; Asking

(defun current-connection (client deadline)
  "Waits for a connection. UNREACHABLE when the time is over or the client is closed."
  (bt:with-lock-held ((client-lock client))
    (loop
      (let ((left (/ (- deadline (get-internal-real-time)) internal-time-units-per-second)))
        (cond ((client-closing client) (error 'connection-lost :message "the client was disconnected"))
              ((client-connection client) (return (client-connection client)))
              ((<= left 0) (error 'unreachable :message (or (client-last-words client) "no daemon answers")
                                               :hint "run `sessiond doctor`")))
        (bt:condition-wait (client-changed client) (client-lock client) :timeout (float left 1d0))))))

(defun call (client method &optional (params (obj)) (timeout *request-timeout*))
  "The result of a request: hash tables, vectors, strings, numbers, T, :FALSE, :NULL.

Sent again over the next connection where the daemon went away before it answered, unless that could do it twice."
  (let ((deadline (+ (get-internal-real-time) (* timeout internal-time-units-per-second))))
    (loop for attempt from 1
          do (let ((connection (current-connection client deadline)))
               (handler-case
                   (return (send-request connection method params :timeout timeout))
                 (connection-lost (problem)
                   (when (or (= attempt *attempts*) (member method *once-only* :test #'string=))
                     (error problem))
                   (wait-till-gone client connection deadline)))))))

(defun wait-till-gone (client connection deadline)
  "The reader is about to notice that this connection is gone."
  (loop while (and (eq (client-connection client) connection) (< (get-internal-real-time) deadline))
        do (bt:thread-yield)))

(defun notify (client method &optional (params (obj)))
  "Send a notification. Whether it arrives is not reported."
  (send-notification (current-connection client (+ (get-internal-real-time)
                                                   (* *request-timeout* internal-time-units-per-second)))
                     method params)
  (values))

;;; Listening

(defun hear (client method params)
  "Runs in the reader's thread, so this must not send requests."
  (let* ((id (or (ref params "sessionId") (ref params "session" "sessionId")))
         (session (bt:with-lock-held ((client-lock client)) (gethash id (client-sessions client)))))
    (when session
      (hear-session session method params))))

(defun do-later (client function)
  "Runs in the dispatcher's thread, after everything that was queued before."
  (bt:with-lock-held ((client-lock client))
    (push function (client-waiting client))
    (wake-client client)))

(defun dispatch-all (client)
  "The dispatcher's thread."
  (loop
    (let ((functions (bt:with-lock-held ((client-lock client))
                       (loop until (or (client-waiting client) (client-closing client))
                             do (bt:condition-wait (client-changed client) (client-lock client)))
                       (when (client-closing client) (return))
                       (shiftf (client-waiting client) '()))))
      (dolist (function (reverse functions))
        (handler-case (funcall function)
          (error (problem) (warn "sessiond: a listener failed: ~A" problem)))))))
