;;;; The LSP base protocol on streams that carry octets: `Content-Length: N`, a blank line, N octets.

(in-package "SESSIOND")

(defconstant +message-octets+ (* 64 1024 1024)
  "The daemon does not send or accept longer ones.")

(defun read-header-line (stream)
  "A line without its CRLF, or NIL at the end of the stream."
  (let ((octets (make-array 64 :element-type '(unsigned-byte 8) :adjustable t :fill-pointer 0)))
    (loop for octet = (read-byte stream nil nil)
          do (cond ((null octet) (return nil))
                   ((= octet 10) (return (string-right-trim '(#\Return) (map 'string #'code-char octets))))
                   (t (vector-push-extend octet octets))))))

(defun read-frame (stream)
  "The octets of the next message, or NIL at the end of the stream (even in the middle of a message)."
  (let ((length nil))
    (loop for line = (read-header-line stream)
          do (cond ((null line) (return-from read-frame nil))
                   ((string= line "") (when length (return)))
                   ((let ((colon (position #\: line)))
                      (when (and colon (string-equal "content-length" (string-trim " " (subseq line 0 colon))))
                        (setf length (parse-integer line :start (1+ colon))))))))
    (when (<= 0 length +message-octets+)
      (let ((octets (make-array length :element-type '(unsigned-byte 8))))
        (when (= (read-sequence octets stream) length)
          octets)))))

(defun write-frame (octets stream)
  (write-sequence (sb-ext:string-to-octets (format nil "Content-Length: ~D~C~C~C~C" (length octets)
                                                   #\Return #\Newline #\Return #\Newline))
                  stream)
  (write-sequence octets stream)
  (force-output stream))
