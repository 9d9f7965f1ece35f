;;;; Errors. Programs decide by the kind, people read the message and the hint.
;;;;
;;;;   sessiond-error            the daemon returned an error; kind as in the protocol ("sessionNotFound", "conflict", ...)
;;;;     unreachable             no daemon could be reached or started
;;;;     connection-lost         it ended before the answer; the request may or may not have been carried out
;;;;     request-timeout         the answer did not come in time

(in-package "SESSIOND")

(define-condition sessiond-error (error)
  ((kind :initarg :kind :initform "internalError" :reader sessiond-error-kind)
   (message :initarg :message :initform "the request failed" :reader sessiond-error-message)
   (hint :initarg :hint :initform nil :reader sessiond-error-hint)
   (data :initarg :data :initform nil :reader sessiond-error-data
         :documentation "A hash table with what belongs to the kind: seq of a conflict, path and line of a bad file."))
  (:report (lambda (condition stream)
             (format stream "~A~@[; ~A~]" (sessiond-error-message condition) (sessiond-error-hint condition)))))

(define-condition unreachable (sessiond-error)
  ()
  (:default-initargs :kind "unreachable" :message "no daemon could be reached or started"))

(define-condition connection-lost (sessiond-error)
  ()
  (:default-initargs :kind "connectionLost" :message "the daemon went away before it answered"))

(define-condition request-timeout (sessiond-error)
  ()
  (:default-initargs :kind "timeout" :message "the daemon did not answer in time"))
