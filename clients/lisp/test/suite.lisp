;;;; How tests are written and run here: each has its own home and its own daemon.

(defpackage "SESSIOND-TEST"
  (:use "COMMON-LISP" "SESSIOND")
  (:export "RUN-ALL"))

(in-package "SESSIOND-TEST")

(defvar *tests* '() "(name claim function), in order.")
(defvar *deadline-s* 30)

(defmacro deftest (name claim &body body)
  "CLAIM says in one sentence what the test shows."
  `(setf *tests* (append (remove ',name *tests* :key #'first)
                         (list (list ',name ,claim (lambda () ,@body))))))

(defmacro check (form)
  "FORM must be true. If it is a call and is false, the error has the values of its arguments."
  (if (and (consp form) (symbolp (first form)) (fboundp (first form)) (not (macro-function (first form))))
      (let ((arguments (gensym "ARGUMENTS")))
        `(let ((,arguments (list ,@(rest form))))
           (unless (apply #',(first form) ,arguments)
             (error "~S is false: ~S" ',form ,arguments))))
      `(unless ,form (error "~S is false" ',form))))

(defmacro check-error (kind &body body)
  "BODY ends with a SESSIOND-ERROR of that kind."
  `(let ((found (handler-case (progn ,@body :none)
                  (sessiond-error (problem) (sessiond-error-kind problem)))))
     (unless (equal found ,kind)
       (error "expected the error ~A, found ~A" ,kind found))))

(defmacro eventually (form)
  "FORM must become true in time. It is evaluated again and again."
  `(loop with deadline = (+ (get-universal-time) *deadline-s*)
         until ,form
         do (when (> (get-universal-time) deadline)
              (error "~S did not become true" ',form))
            (sleep 0.005)))

;;; Homes

(defun sessiond (&rest arguments)
  "Run the command with ARGUMENTS. Returns its output; an error if it fails."
  (let* ((out (make-string-output-stream))
         (process (sb-ext:run-program (sessiond::program) arguments :search t :output out :error out
                                                                    :external-format :utf-8)))
    (unless (zerop (sb-ext:process-exit-code process))
      (error "sessiond ~{~A~^ ~}: ~A" arguments (get-output-stream-string out)))
    (get-output-stream-string out)))

(defun call-in-home (function)
  (let ((folder (string-right-trim '(#\Newline)
                                   (with-output-to-string (out)
                                     (sb-ext:run-program "mktemp" '("-d" "/tmp/sdl-XXXXXX") :search t :output out)))))
    (sb-posix:setenv "SESSIOND_HOME" folder 1)
    (unwind-protect (funcall function)
      (sessiond::disconnect-all)
      (ignore-errors (sessiond "stop"))
      (uiop:delete-directory-tree (uiop:ensure-directory-pathname folder) :validate t))))

(defun home-file (&rest path)
  (format nil "~A~{/~A~}" (uiop:getenv "SESSIOND_HOME") path))

(defun kill-daemon (client)
  "Kill the daemon with SIGKILL."
  (sb-posix:kill (ref (call client "daemon/hello") "pid") sb-posix:sigkill))

(defun kill-relay (client)
  (sb-ext:process-kill (sessiond::connection-process (sessiond::client-connection client)) sb-posix:sigkill))

(defun texts (session)
  (map 'list #'text-of (session-messages session)))

(defun on-disk (client id)
  "The texts as the daemon reads them from the session, whatever CLIENT has of it in memory."
  (map 'list #'text-of (ref (call client "session/read" (obj :session-id id :limit 1000)) "messages")))

(defun recorder (session)
  "A function that returns the (kind change) pairs that a listener got so far, oldest first."
  (let ((heard '()) (lock (bt:make-lock)))
    (add-listener session (lambda (kind change session)
                            (declare (ignore session))
                            (bt:with-lock-held (lock) (push (list kind change) heard))))
    (lambda () (bt:with-lock-held (lock) (reverse heard)))))

(defun heard-texts (recorder)
  (loop for (kind change) in (funcall recorder)
        when (eq kind :appended)
          append (map 'list #'text-of (ref change "messages"))))

;;; Running

(defun run-all (&optional names)
  "Print one line per test: `ok NAME` or `not ok NAME: why`. Returns whether all passed."
  (let ((failed 0))
    (loop for (name nil function) in *tests*
          when (or (null names) (member name names :test #'string-equal))
            do (handler-case (progn (call-in-home function)
                                    (format t "~&ok ~(~A~)~%" name))
                 (error (problem)
                   (incf failed)
                   (format t "~&not ok ~(~A~): ~A~%" name (substitute #\Space #\Newline (princ-to-string problem)))))
               (finish-output))
    (zerop failed)))
