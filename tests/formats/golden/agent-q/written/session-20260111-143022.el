;; -*- mode: emacs-lisp; lexical-binding: t; coding: utf-8-unix -*-
;; Agent-Q Session
;; Created: 2026-01-11 14:30:22
;; Name: Auth bug investigation

(:version 1
 :id "session-20260111-143022"
 :name "Auth bug investigation"
 :created-at (26979 46078 0 0)
 :updated-at (26979 46085 1000 0)
 :model "claude-sonnet-4-5"
 :messages
 ((:id "20260111143022-a1b2"
   :role user
   :content "Fix the bug in auth.lisp"
   :timestamp (26979 46078 0 0)
   :context-snapshot nil
   :metadata nil)
  (:id "20260111143022-sys0"
   :role system
   :content "Be brief."
   :timestamp (26979 46078 10000 0)
   :context-snapshot nil
   :metadata nil)
  (:id "20260111143025-c3d4"
   :role assistant
   :content "I see:
	(defun check (\"x\\y\"))
日本語 👩‍👩‍👧"
   :timestamp (26979 46081 250000 0)
   :context-snapshot (:file "auth.lisp" :point 1290)
   :metadata (:tool-calls ((:id "call-1"
                            :name "read-file"
                            :arguments (:path "auth.lisp" :lines [1 40] :all :false)))
              :tokens 412))
  (:id "20260111143026-e5f6"
   :role tool
   :content "; auth
(in-package :auth)"
   :timestamp (26979 46082 0 0)
   :context-snapshot nil
   :metadata nil)
  (:id "20260111143029-0718"
   :role assistant
   :content "Done\e[0m."
   :timestamp (26979 46085 1000 0)
   :context-snapshot nil
   :metadata nil))
 :metadata (:branch "main" :retries 2 :flags (:deep t :quiet :false)))
