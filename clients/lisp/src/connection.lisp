;;;; One connection: `sessiond` as a process, which passes our messages to the daemon and starts one if necessary.
;;;;
;;;; One thread reads. Answers wake up their callers; notifications go to the connection's HEARD in order of arrival; at
;;;; the end all waiting callers are told, then GONE is called, once. Another thread writes: a relay that takes nothing
;;;; blocks only that thread.

(in-package "SESSIOND")

(defvar *program* nil
  "The program that speaks for the daemon. NIL: the value of SESSIOND in the environment, otherwise sessiond on the path.")

(defun program ()
  (or *program* (uiop:getenvp "SESSIOND") "sessiond"))

(defvar *request-timeout* 60
  "Seconds that a request may take, including the start of a daemon.")

(defvar *parting-s* 1
  "Seconds that closing a connection waits for what is still to be written.")

(defclass connection ()
  ((process :initarg :process :reader connection-process)
   (heard :initarg :heard :reader connection-heard)
   (gone :initarg :gone :reader connection-gone)
   (lock :initform (bt:make-lock "sessiond connection") :reader connection-lock)
   (answered :initform (bt:make-condition-variable :name "sessiond answer") :reader connection-answered)
   (last-id :initform 0 :accessor connection-last-id)
   (answers :initform (make-hash-table) :reader connection-answers
            :documentation "Id of a request -> :WAITING, or the message that answers it.")
   (outgoing :initform '() :accessor connection-outgoing :documentation "Octets to write, newest first.")
   (writing :initform nil :accessor connection-writing :documentation "Whether something of it is being written.")
   (outgoing-lock :initform (bt:make-lock "sessiond outgoing") :reader connection-outgoing-lock)
   (outgoing-changed :initform (bt:make-condition-variable :name "sessiond outgoing")
                     :reader connection-outgoing-changed)
   (writer :initform nil :accessor connection-writer)
   (openp :initform t :accessor connection-open-p)
   (reader :initform nil :accessor connection-reader)))

(defun open-connection (heard gone)
  "A connection whose notifications go to HEARD (method params) and whose end to GONE (last output on stderr or NIL)."
  (let* ((process (handler-case
                      (sb-ext:run-program (program) '() :search t :wait nil
                                                        :input :stream :output :stream :error :stream
                                                        :external-format :latin-1)
                    (error (problem)
                      (error 'unreachable :message (format nil "~A could not be run: ~A" (program) problem)
                                          :hint "is sessiond installed and on the path?"))))
         (connection (make-instance 'connection :process process :heard heard :gone gone)))
    (setf (connection-writer connection)
          (bt:make-thread (lambda () (write-all connection)) :name "sessiond writer")
          (connection-reader connection)
          (bt:make-thread (lambda () (read-all connection)) :name "sessiond reader"))
    connection))

(defun send-message (connection message)
  "Sent after all earlier messages; only an answer shows whether it arrived."
  (let ((octets (encode message)))
    (bt:with-lock-held ((connection-outgoing-lock connection))
      (push octets (connection-outgoing connection))
      (wake-writer connection))))

(defun wake-writer (connection)
  (loop repeat 8 do (bt:condition-notify (connection-outgoing-changed connection))))

(defun write-all (connection)
  "The writer's thread. If nobody takes its output, the reader is about to see the end."
  (let ((stream (sb-ext:process-input (connection-process connection))))
    (handler-case
        (loop
          (let ((messages (bt:with-lock-held ((connection-outgoing-lock connection))
                            (loop while (and (connection-open-p connection) (null (connection-outgoing connection)))
                                  do (bt:condition-wait (connection-outgoing-changed connection)
                                                        (connection-outgoing-lock connection)))
                            (unless (connection-open-p connection) (return))
                            (setf (connection-writing connection) t)
                            (shiftf (connection-outgoing connection) '()))))
            (dolist (octets (reverse messages))
              (write-frame octets stream))
            (bt:with-lock-held ((connection-outgoing-lock connection))
              (setf (connection-writing connection) nil)
              (wake-writer connection))))
      (error () (ignore-errors (sb-ext:process-kill (connection-process connection) 15))))))

(defun wait-till-written (connection)
  "When this returns everything sent has been passed on, or nobody takes it."
  (let ((deadline (+ (get-internal-real-time) (* *parting-s* internal-time-units-per-second))))
    (bt:with-lock-held ((connection-outgoing-lock connection))
      (loop for left = (/ (- deadline (get-internal-real-time)) internal-time-units-per-second)
            while (and (plusp left) (connection-open-p connection)
                       (or (connection-writing connection) (connection-outgoing connection)))
            do (bt:condition-wait (connection-outgoing-changed connection) (connection-outgoing-lock connection)
                                  :timeout (float left 1d0)))
      (null (or (connection-writing connection) (connection-outgoing connection))))))

(defun send-request (connection method params &key (timeout *request-timeout*))
  "The result of a request. SESSIOND-ERROR with the daemon's error, CONNECTION-LOST, REQUEST-TIMEOUT."
  (let ((lock (connection-lock connection))
        (answers (connection-answers connection))
        (id nil))
    (bt:with-lock-held (lock)
      (unless (connection-open-p connection)
        (error 'connection-lost))
      (setf id (incf (connection-last-id connection))
            (gethash id answers) :waiting)
      (handler-bind ((error (lambda (condition) (declare (ignore condition)) (remhash id answers))))
        (send-message connection (obj "jsonrpc" "2.0" "id" id "method" method "params" params))))
    (let ((answer (wait-for-answer connection id timeout)))
      (cond ((eq answer :lost) (error 'connection-lost))
            ((eq answer :waiting)
             (ignore-errors
              (bt:with-lock-held (lock)
                (send-message connection (obj "jsonrpc" "2.0" "method" "$/cancelRequest" "params" (obj :id id)))))
             (error 'request-timeout :message (format nil "~A took longer than ~D s" method timeout)))
            (t (result-of answer))))))

(defun wait-for-answer (connection id timeout)
  "The message, or :WAITING when the time is over, or :LOST."
  (let ((deadline (+ (get-internal-real-time) (* timeout internal-time-units-per-second)))
        (answers (connection-answers connection)))
    (bt:with-lock-held ((connection-lock connection))
      (unwind-protect
           (loop
             (let ((answer (gethash id answers))
                   (left (/ (- deadline (get-internal-real-time)) internal-time-units-per-second)))
               (cond ((not (eq answer :waiting)) (return answer))
                     ((not (connection-open-p connection)) (return :lost))
                     ((<= left 0) (return :waiting)))
               (bt:condition-wait (connection-answered connection) (connection-lock connection)
                                  :timeout (float left 1d0))))
        (remhash id answers)))))

(defun result-of (answer)
  (let ((problem (ref answer "error")))
    (if problem
        (let ((data (or (ref problem "data") (obj))))
          (error 'sessiond-error :kind (or (ref data "kind") "internalError")
                                 :message (or (ref problem "message") "the request failed")
                                 :hint (ref data "hint") :data data))
        (ref answer "result"))))

(defun send-notification (connection method params)
  (bt:with-lock-held ((connection-lock connection))
    (send-message connection (obj "jsonrpc" "2.0" "method" method "params" params))))

(defun read-all (connection)
  "The reader's thread."
  (let ((stream (sb-ext:process-output (connection-process connection))))
    (unwind-protect
         (ignore-errors
          (loop for octets = (read-frame stream)
                while octets do (take-message connection (decode octets))))
      (bt:with-lock-held ((connection-lock connection))
        (setf (connection-open-p connection) nil)
        (wake-all connection))
      (bt:with-lock-held ((connection-outgoing-lock connection))
        (wake-writer connection))
      (funcall (connection-gone connection) (bury connection)))))

(defun wake-all (connection)
  ;; Usually one thread waits at a time; if there are several, each checks whether the answer is its own.
  (loop repeat (max 1 (hash-table-count (connection-answers connection)))
        do (bt:condition-notify (connection-answered connection))))

(defun take-message (connection message)
  (let ((method (ref message "method"))
        (id (ref message "id")))
    (cond ((and method id)              ; a request from the daemon: we do not answer those
           (bt:with-lock-held ((connection-lock connection))
             (send-message connection
                           (obj "jsonrpc" "2.0" "id" id
                                "error" (obj :code -32601 :message "this client takes no requests")))))
          (method (funcall (connection-heard connection) method (or (ref message "params") (obj))))
          (t (bt:with-lock-held ((connection-lock connection))
               (when (eq (gethash id (connection-answers connection)) :waiting)
                 (setf (gethash id (connection-answers connection)) message))
               (wake-all connection))))))

(defun bury (connection)
  "End the process. Returns its last line on stderr, or NIL."
  (let ((process (connection-process connection)))
    (ignore-errors (close (sb-ext:process-input process) :abort t))
    (let ((words (ignore-errors
                  (loop with last = nil
                        for line = (read-line (sb-ext:process-error process) nil nil)
                        while line do (setf last line)
                        finally (return last)))))
      (ignore-errors (sb-ext:process-wait process))
      (ignore-errors (sb-ext:process-close process))
      (and words (ignore-errors
                  (sb-ext:octets-to-string (map '(vector (unsigned-byte 8)) #'char-code words)
                                           :external-format :utf-8))))))

(defun close-connection (connection)
  "The relay ends when its input does; the reader sees that and cleans up."
  (if (wait-till-written connection)
      (ignore-errors (close (sb-ext:process-input (connection-process connection)) :abort t))
      ;; The writer is in the middle of a message: only the end of the relay frees it.
      (ignore-errors (sb-ext:process-kill (connection-process connection) 15))))
