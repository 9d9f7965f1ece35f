;;;; sbcl --script run.lisp [NAME ...]: the tests, or those of these names. See tests/clients/test_lisp.py for the environment.

(require :asdf)
(require :sb-posix)

(push (uiop:pathname-parent-directory-pathname (uiop:pathname-directory-pathname *load-truename*))
      asdf:*central-registry*)

(let ((*standard-output* (make-broadcast-stream))
      (asdf:*compile-file-warnings-behaviour* :error)
      (asdf:*compile-file-failure-behaviour* :error))
  ;; What the libraries say is theirs; of ours not even a style warning passes.
  (mapc #'asdf:load-system (asdf:system-depends-on (asdf:find-system "sessiond")))
  (handler-bind ((style-warning (lambda (warning)
                                  (unless (typep warning '(or asdf:bad-system-name sb-kernel:redefinition-warning))
                                    (error "~A" warning)))))
    (asdf:load-system "sessiond/test")))

(sb-ext:exit :code (if (uiop:symbol-call "SESSIOND-TEST" "RUN-ALL" (rest sb-ext:*posix-argv*)) 0 1))
