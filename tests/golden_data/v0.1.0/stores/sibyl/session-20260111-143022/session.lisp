(:version 1
 :id "session-20260111-143022"
 :created-at 4004304574
 :summary nil
 :messages
 ((:role :user
   :content "session-20260111-143022 says 1: λ, 直して, 😀"
   :timestamp 3977130601)
  (:role :assistant
   :content "session-20260111-143022 says 2: λ, 直して, 😀"
   :timestamp 3977130602
   :tool-calls ((:id "c1"
                 :name "grep"
                 :arguments (("pattern" . "x")))))
  (:role :tool
   :content "session-20260111-143022 says 3: λ, 直して, 😀"
   :timestamp 3977130603
   :tool-call-id "c1")))
