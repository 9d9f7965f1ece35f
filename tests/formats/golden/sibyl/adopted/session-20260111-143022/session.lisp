;;; saved by hand
(:VERSION 1 :ID "session-20260111-143022" :CREATED-AT 3977130622 :SUMMARY NIL
 #| nobody knows this key |# :MOOD :|Good One| :MESSAGES
 ((:ROLE :USER :CONTENT "ファイルを「読む」 \"auth.lisp\" \\o/
second line" :TIMESTAMP 3977130622)
  (:role :assistant :content "" :timestamp 3977130625
   :tool-calls ((:id "call-1" :name "read-file" :arguments (("path" . "auth.lisp") ("lines" 1 40) ("all" . nil) ("ratio" . 1/2) ("深さ" . 2.5d0)))))
  (:ROLE :|TOOL| :CONTENT "(in-package :auth)" :TIMESTAMP 3977130626 :TOOL-CALL-ID "call-1" :ELAPSED 12)
  (:ROLE :ASSISTANT :CONTENT "Done." :TIMESTAMP NIL)))
