;;;; JSON <-> Lisp.
;;;;
;;;;   object   hash table (EQUAL, keys are strings)      true, false   T, :FALSE
;;;;   array    vector; a list is encoded as one too       null          :NULL
;;;;   string, integer, double-float                       (so NIL is the empty array)
;;;;
;;;; yason reads. It does not write, because it does not escape control characters in strings, which is not
;;;; JSON.

(in-package "SESSIOND")

(defun camel-case (keyword)
  "A keyword as a name of the wire: :SESSION-ID is \"sessionId\"."
  (let ((upward nil))
    (with-output-to-string (out)
      (loop for char across (string-downcase keyword)
            do (cond ((char= char #\-) (setf upward t))
                     (upward (write-char (char-upcase char) out) (setf upward nil))
                     (t (write-char char out)))))))

(defun obj (&rest plist)
  "A JSON object. Keys are keywords (:SESSION-ID becomes \"sessionId\") or strings, which are used unchanged."
  (let ((table (make-hash-table :test #'equal)))
    (loop for (key value) on plist by #'cddr
          do (setf (gethash (if (keywordp key) (camel-case key) key) table) value))
    table))

(defun obj-of (&rest plist)
  "Like OBJ, without the keys whose value is NIL."
  (apply #'obj (loop for (key value) on plist by #'cddr when value collect key and collect value)))

(defun copy-object (object)
  "Another object with the same keys and values."
  (let ((copy (obj)))
    (maphash (lambda (key value) (setf (gethash key copy) value)) object)
    copy))

(defun ref (value &rest path)
  "The item at PATH (names and indices) in VALUE; NIL if it is missing or null."
  (dolist (step path (if (eq value :null) nil value))
    (setf value (cond ((and (hash-table-p value) (stringp step)) (gethash step value))
                      ((and (vectorp value) (not (stringp value)) (integerp step) (< -1 step (length value)))
                       (aref value step))
                      (t (return nil))))))

(defun text-of (message)
  "The content of a message as text; for content blocks, the text in them."
  (let ((content (ref message "content")))
    (cond ((stringp content) content)
          ((vectorp content)
           (format nil "~{~A~^~%~}"
                   (loop for block across content
                         for text = (ref block "text")
                         when (stringp text) collect text)))
          (t ""))))

;;; Reading

(defun plain (value)
  "Strings as simple strings and false as :FALSE, all the way down."
  (typecase value
    (string (coerce value 'simple-string))
    (hash-table (let ((table (make-hash-table :test #'equal)))
                  (maphash (lambda (key item) (setf (gethash (coerce key 'simple-string) table) (plain item))) value)
                  table))
    (vector (map 'vector #'plain value))
    ((eql yason:true) t)
    ((eql yason:false) :false)
    (t value)))

(defun decode (octets)
  "Octets of UTF-8 -> a value."
  (let ((*read-default-float-format* 'double-float)
        (*read-base* 10)
        (*read-eval* nil))
    (plain (yason:parse (sb-ext:octets-to-string octets :external-format :utf-8)
                        :json-arrays-as-vectors t :json-booleans-as-symbols t :json-nulls-as-keyword t))))

;;; Writing

(defun write-json-string (string out)
  (write-char #\" out)
  (loop for char across string
        for code = (char-code char)
        do (cond ((char= char #\") (write-string "\\\"" out))
                 ((char= char #\\) (write-string "\\\\" out))
                 ((< code 32) (format out "\\u~4,'0X" code))
                 ((<= #xD800 code #xDFFF)
                  (error 'sessiond-error :kind "invalidParams"
                                         :message (format nil "the character U+~X is half of one" code)
                                         :hint "send whole characters"))
                 (t (write-char char out))))
  (write-char #\" out))

(defun write-json (value out)
  (etypecase value
    (string (write-json-string value out))
    (integer (format out "~D" value))
    (real (let ((*read-default-float-format* 'double-float)) (format out "~A" (coerce value 'double-float))))
    (hash-table
     (write-char #\{ out)
     (let ((first t))
       (maphash (lambda (key item)
                  (if first (setf first nil) (write-char #\, out))
                  (write-json-string key out)
                  (write-char #\: out)
                  (write-json item out))
                value))
     (write-char #\} out))
    ((or (eql t) (eql :true)) (write-string "true" out))
    ((eql :false) (write-string "false" out))
    ((eql :null) (write-string "null" out))
    (sequence
     (write-char #\[ out)
     (let ((first t))
       (map nil (lambda (item)
                  (if first (setf first nil) (write-char #\, out))
                  (write-json item out))
            value))
     (write-char #\] out))
    (symbol (write-json-string (camel-case value) out))))

(defun encode (value)
  "A value -> octets of UTF-8."
  (sb-ext:string-to-octets (with-output-to-string (out)
                             (let ((*print-base* 10) (*print-radix* nil)) (write-json value out)))
                           :external-format :utf-8))
