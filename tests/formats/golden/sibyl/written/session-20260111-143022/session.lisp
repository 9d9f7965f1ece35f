(:version 1
 :id "session-20260111-143022"
 :created-at 3977130622
 :summary "認証のバグ"
 :messages
 ((:role :user
   :content "Fix the bug in auth.lisp"
   :timestamp 3977130622)
  (:role :assistant
   :content "I see:
	(defun check (\"x\\y\"))
日本語 👩‍👩‍👧"
   :timestamp 3977130625
   :tool-calls ((:id "call-1"
                 :name "read-file"
                 :arguments (("path" . "auth.lisp") ("lines" . (1 40)) ("all" . nil)))))
  (:role :tool
   :content "; auth
(in-package :auth)"
   :timestamp 3977130626
   :tool-call-id "call-1")
  (:role :assistant
   :content "Done[0m."
   :timestamp 3977130629)))
