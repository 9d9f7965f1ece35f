;; -*- mode: emacs-lisp; lexical-binding: t; coding: utf-8-unix -*-
;; Agent-Q Session
;; Created: 2026-11-22 02:49:34
;; Name: Name of session-20260111-143022

(:version 1
 :id "session-20260111-143022"
 :name "Name of session-20260111-143022"
 :created-at (27394 22590 270000 0)
 :updated-at (27394 22590 287000 0)
 :model nil
 :messages
 ((:id "session-20260111-143022-1"
   :role user
   :content "session-20260111-143022 says 1: λ, 直して, 😀"
   :timestamp (26979 46057 0 0)
   :context-snapshot nil
   :metadata nil)
  (:id "session-20260111-143022-2"
   :role assistant
   :content "session-20260111-143022 says 2: λ, 直して, 😀"
   :timestamp (26979 46058 0 0)
   :context-snapshot nil
   :metadata (:tool-calls ((:id "c1" :name "grep" :arguments (:pattern "x")))))
  (:id "session-20260111-143022-3"
   :role tool
   :content "session-20260111-143022 says 3: λ, 直して, 😀"
   :timestamp (26979 46059 0 0)
   :context-snapshot nil
   :metadata nil))
 :metadata nil)
