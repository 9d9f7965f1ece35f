;;;; sbcl --script partner.lisp ID: what others do in a session, a line each; the lines of standard input are said in it,
;;;; or are its draft where they begin with `draft: `.

(require :asdf)

(push (uiop:pathname-parent-directory-pathname (uiop:pathname-directory-pathname *load-truename*))
      asdf:*central-registry*)

(let ((*standard-output* (make-broadcast-stream)))
  (asdf:load-system "sessiond"))

(defun tell (control &rest arguments)
  (format t "~?~%" control arguments)
  (finish-output))

(sessiond:with-client (client :name "lisp")
  (let ((session (sessiond:open-session client (second sb-ext:*posix-argv*))))
    (sessiond:add-listener session
                           (lambda (kind change session)
                             (declare (ignore session))
                             (case kind
                               (:appended (loop for message across (sessiond:ref change "messages")
                                                do (tell "appended ~A" (sessiond:text-of message))))
                               (:extended (tell "extended ~A" (sessiond:ref change "text")))
                               (:finished (tell "finished ~A" (sessiond:ref change "status")))
                               (t (tell "~(~A~)" kind)))))
    (tell "open ~{~A~^|~}" (map 'list #'sessiond:text-of (sessiond:session-messages session)))
    (tell "draft ~A" (sessiond:draft session))
    (loop for line = (read-line *standard-input* nil nil)
          while line do (if (eql 0 (search "draft: " line))
                            (sessiond:keep-draft session (subseq line 7))
                            (sessiond:say session line)))))
