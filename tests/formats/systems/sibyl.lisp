;;;; The file format of sibyl, for tests: structs in memory, one form in <id>/session.lisp, written whole by PRIN1 and read by READ with
;;;; *READ-EVAL* off.  Written from the description of the format.

(defpackage :session-files (:use :common-lisp))
(in-package :session-files)

(defstruct message role content timestamp tool-calls tool-call-id)
(defstruct call id name arguments)
(defstruct session id created-at summary messages)

(defun session-file (id directory)
  (format nil "~a/~a/session.lisp" directory id))

(defun call->form (call)
  (list :id (call-id call) :name (call-name call)
        :arguments (loop for key being the hash-keys of (call-arguments call) using (hash-value value) collect (cons key value))))

(defun message->form (message)
  (append (list :role (message-role message) :content (message-content message) :timestamp (message-timestamp message))
          (when (message-tool-calls message) (list :tool-calls (mapcar #'call->form (message-tool-calls message))))
          (when (message-tool-call-id message) (list :tool-call-id (message-tool-call-id message)))))

(defun save-session (session directory)
  (let ((file (session-file (session-id session) directory)))
    (ensure-directories-exist file)
    (with-open-file (out file :direction :output :if-exists :supersede :external-format :utf-8)
      (with-standard-io-syntax
        (prin1 (list :version 1 :id (session-id session) :created-at (session-created-at session)
                     :summary (session-summary session)
                     :messages (mapcar #'message->form
                                       (remove :system (session-messages session) :key #'message-role)))
               out)
        (terpri out)))))

(defun form->call (form)
  (let ((table (make-hash-table :test #'equal)))
    (loop for (key . value) in (getf form :arguments) do (setf (gethash key table) value))
    (make-call :id (getf form :id) :name (getf form :name) :arguments table)))

(defun form->message (form)
  (make-message :role (getf form :role) :content (getf form :content) :timestamp (getf form :timestamp)
                :tool-calls (mapcar #'form->call (getf form :tool-calls)) :tool-call-id (getf form :tool-call-id)))

(defun load-session (id directory)
  (let ((form (with-open-file (in (session-file id directory) :external-format :utf-8)
                (with-standard-io-syntax
                  (let ((*read-eval* nil)) (read in))))))
    (make-session :id (getf form :id) :created-at (getf form :created-at) :summary (getf form :summary)
                  :messages (mapcar #'form->message (getf form :messages)))))

;;; What the tests call.

(defun json (value out)
  "VALUE as JSON: strings, integers, :NULL, vectors, and lists (:OBJECT KEY VALUE ...)."
  (etypecase value
    (string (write-char #\" out)
     (loop for char across value
           for code = (char-code char)
           do (if (or (< code 32) (< 126 code 160) (member char '(#\" #\\)))
                  (format out "\\u~4,'0x" code)
                  (write-char char out)))
     (write-char #\" out))
    (integer (format out "~d" value))
    ((eql :null) (write-string "null" out))
    (vector (write-char #\[ out)
     (loop for (item . more) on (coerce value 'list) do (json item out) (when more (write-char #\, out)))
     (write-char #\] out))
    (cons (write-char #\{ out)
     (loop for (key item . more) on (rest value) by #'cddr
           do (json key out) (write-char #\: out) (json item out) (when more (write-char #\, out)))
     (write-char #\} out))))

(defun printed (value)
  (with-standard-io-syntax (prin1-to-string value)))

(defun tell (directory out-file &rest ids)
  (with-open-file (out out-file :direction :output :if-exists :supersede :external-format :utf-8)
    (json (map 'vector
               (lambda (id)
                 (let ((session (load-session id directory)))
                   (list :object "id" (session-id session) "created" (session-created-at session)
                         "summary" (or (session-summary session) :null)
                         "messages"
                         (map 'vector
                              (lambda (message)
                                (list :object "role" (string-downcase (message-role message)) "content" (message-content message)
                                      "time" (message-timestamp message) "answers" (or (message-tool-call-id message) :null)
                                      "calls" (map 'vector
                                                   (lambda (call)
                                                     (list :object "id" (call-id call) "name" (call-name call)
                                                           "arguments" (printed (loop for key being the hash-keys of (call-arguments call)
                                                                                        using (hash-value value)
                                                                                      collect (cons key value)))))
                                                   (message-tool-calls message))))
                              (session-messages session)))))
               ids)
          out)))

(defun read-plan (file)
  (with-open-file (in file :external-format :utf-8)
    (with-standard-io-syntax (let ((*read-eval* nil)) (read in)))))

(defun add-messages (session forms)
  (setf (session-messages session) (append (session-messages session) (mapcar #'form->message forms))))

(defun create (plan-file directory)
  "PLAN-FILE holds a list of (ID CREATED SUMMARY MESSAGE-FORM ...)."
  (loop for (id created summary . forms) in (read-plan plan-file)
        for session = (make-session :id id :created-at created :summary summary)
        do (add-messages session forms)
           (save-session session directory)))

(defun resave (plan-file directory)
  "PLAN-FILE holds a list of (ID MESSAGE-FORM ...): load, add, save."
  (loop for (id . forms) in (read-plan plan-file)
        for session = (load-session id directory)
        do (add-messages session forms)
           (save-session session directory)))

(defun main (command &rest arguments)
  (apply (cond ((string= command "report") #'tell)
               ((string= command "create") #'create)
               (t #'resave))
         arguments))

(apply #'main (rest sb-ext:*posix-argv*))
