;; -*- mode: emacs-lisp; lexical-binding: t; -*-
;; Agent-Q Session
;; Created: 2026-01-11 14:30:22
;; Name: Auth bug investigation

(:version 1 :id "session-20260111-143022" :name "Auth bug investigation" :created-at
          (26979 46078 123456 789000)
          :updated-at
          (1768141999123 . 1000)
          :model "claude-sonnet-4-5" :messages
          ((:id "20260111143022-a1b2" :role user :content
                #("Fix the \"bug\" in\nauth.lisp" 0 3
                  (face bold))
                :timestamp
                (26979 46078 123456 789000)
                :context-snapshot
                (:file "auth.lisp" :point 12 :region
                       (1 . 20))
                :metadata nil)
           ;; kept by hand
           (:id "20260111143025-c3d4" :role assistant :content "見えます\33[0m \343\201\202
second line" :timestamp
(26979 46081)
:context-snapshot nil :metadata
(:tool-calls
 ((:id "call-1" :name "read-file" :arguments
       (:path "auth.lisp" :all t)))
 :cost 0.25 :tags
 ["a" b])
:rating 'good)
           (:id nil :role user :content "no id, no time" :timestamp nil))
          :metadata
          ((branch . "main")
           (retries . 2))
          :extra ?\C-a)
