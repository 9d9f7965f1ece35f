;;;; The wire transcripts of the project, replayed over this client's own connections. SESSIOND_WIRE names their folder.

(in-package "SESSIOND-TEST")

(defclass wire-client ()
  ((connection :accessor wire-connection)
   (lock :initform (bt:make-lock) :reader wire-lock)
   (heard :initform '() :accessor wire-heard :documentation "(method . params), oldest first.")
   (answer :initform nil :accessor wire-answer :documentation "A result, or the condition of an error.")))

(defun wire-connect ()
  (let ((client (make-instance 'wire-client)))
    (setf (wire-connection client)
          (sessiond::open-connection (lambda (method params)
                                       (bt:with-lock-held ((wire-lock client))
                                         (setf (wire-heard client)
                                               (append (wire-heard client) (list (cons method params))))))
                                     (constantly nil)))
    client))

(defun wire-notification (client method)
  "The params of the next one; those of other methods before it are passed over."
  (let ((params nil))
    (eventually (bt:with-lock-held ((wire-lock client))
                  (loop while (wire-heard client)
                        do (destructuring-bind (found . its-params) (pop (wire-heard client))
                             (when (string= found method)
                               (setf params its-params)
                               (return)))
                        finally (return nil))
                  params))
    params))

(defun json (text)
  (sessiond::decode (sb-ext:string-to-octets text :external-format :utf-8)))

(defun split-word (text)
  "The first word, and the JSON behind it (an empty object where there is none)."
  (let ((blank (position #\Space text)))
    (values (subseq text 0 blank) (if blank (json (subseq text blank)) (obj)))))

(defun filled (value names)
  (typecase value
    (string (gethash value names value))
    (hash-table (let ((table (obj)))
                  (maphash (lambda (key item) (setf (gethash key table) (filled item names))) value)
                  table))
    (vector (map 'vector (lambda (item) (filled item names)) value))
    (t value)))

(defun match (expected found names where)
  (flet ((fail () (error "~A: ~A is not ~A" where (shown found) (shown expected))))
    (typecase expected
      (string (cond ((string= expected "..."))
                    ((and (plusp (length expected)) (char= (char expected 0) #\$))
                     (unless (equalp found (or (gethash expected names) (setf (gethash expected names) found))) (fail)))
                    ((not (equal expected found)) (fail))))
      (hash-table
       (unless (hash-table-p found) (fail))
       (maphash (lambda (key value)
                  (multiple-value-bind (item there) (gethash key found)
                    (unless there (error "~A.~A is missing in ~A" where key (shown found)))
                    (match value item names (format nil "~A.~A" where key))))
                expected))
      (vector
       (unless (and (vectorp found) (= (length found) (length expected))) (fail))
       (loop for one across expected
             for other across found
             for nth from 0
             do (match one other names (format nil "~A[~D]" where nth))))
      (t (unless (eql expected found) (fail))))))

(defun shown (value)
  (with-output-to-string (out) (sessiond::write-json value out)))

(defun replay-line (line clients names)
  (let* ((who (char line 0))
         (mark (char line 1))
         (rest (string-trim " " (subseq line 2)))
         (client (or (gethash who clients) (setf (gethash who clients) (wire-connect)))))
    (ecase mark
      (#\- (sessiond::close-connection (wire-connection client))
       (remhash who clients))
      (#\> (if (char= (char rest 0) #\!)
               (multiple-value-bind (method params) (split-word (string-trim " " (subseq rest 1)))
                 (sessiond::send-notification (wire-connection client) method (filled params names)))
               (multiple-value-bind (method params) (split-word rest)
                 (setf (wire-answer client)
                       (handler-case (sessiond::send-request (wire-connection client) method (filled params names))
                         (sessiond-error (problem) problem))))))
      (#\< (when (typep (wire-answer client) 'condition) (error "an error: ~A" (wire-answer client)))
       (match (json rest) (wire-answer client) names "result"))
      (#\! (multiple-value-bind (kind data) (split-word rest)
             (let ((problem (wire-answer client)))
               (unless (and (typep problem 'sessiond-error) (string= kind (sessiond-error-kind problem)))
                 (error "not the error ~A: ~A" kind problem))
               (match data (sessiond-error-data problem) names "error.data"))))
      (#\* (multiple-value-bind (method params) (split-word rest)
             (match params (wire-notification client method) names method))))))

(defun replay (path)
  (let ((clients (make-hash-table)) (names (make-hash-table :test #'equal)))
    (unwind-protect
         (with-open-file (in path :external-format :utf-8)
           (loop for line = (read-line in nil nil)
                 for number from 1
                 while line
                 do (unless (or (string= (string-trim " " line) "") (char= (char line 0) #\#))
                      (handler-case (replay-line line clients names)
                        (error (problem) (error "~A:~D: ~A~%~A" (pathname-name path) number line problem))))))
      (loop for client being the hash-values of clients
            do (sessiond::close-connection (wire-connection client))))))

(dolist (path (and (uiop:getenvp "SESSIOND_WIRE")
                   (directory (format nil "~A/*.wire" (uiop:getenv "SESSIOND_WIRE")))))
  (let ((path path) (name (format nil "wire-~A" (pathname-name path))))
    (setf *tests* (append *tests* (list (list name "The daemon answers this client as the transcript says."
                                              (lambda () (replay path))))))))
