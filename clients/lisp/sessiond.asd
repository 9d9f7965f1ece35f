;;;; The client for Common Lisp, and its tests.

(defsystem "sessiond"
  :description "Conversations kept by sessiond: connect, share a session live, stream, resume."
  :license "MIT"
  :version "0.1.0"
  :depends-on ("yason" "bordeaux-threads")
  :pathname "src/"
  :serial t
  :components ((:file "package")
               (:file "conditions")
               (:file "json")
               (:file "framing")
               (:file "connection")
               (:file "client")
               (:file "follow")
               (:file "hubs")
               (:file "session")
               (:file "drafts")
               (:file "autosave")
               (:file "repl"))
  :in-order-to ((test-op (test-op "sessiond/test"))))

(defsystem "sessiond/test"
  :description "Needs a daemon that it may kill: SESSIOND_HOME names a throwaway home, SESSIOND the program."
  :depends-on ("sessiond")
  :pathname "test/"
  :serial t
  :components ((:file "suite")
               (:file "tests")
               (:file "wire"))
  :perform (test-op (operation system)
             (declare (ignore operation system))
             (uiop:symbol-call "SESSIOND-TEST" "RUN-ALL")))
