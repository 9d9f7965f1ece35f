;;; sessiond-text.el --- How sessions and messages read  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 the sessiond authors

;; Author: the sessiond authors
;; SPDX-License-Identifier: MIT

;;; Commentary:

;; From values of the protocol to what people see: titles, times, content.
;; Nothing here talks to the daemon.

;;; Code:

(require 'subr-x)

(defun sessiond-clean (text)
  "TEXT on one line, without characters that would disturb a display."
  (replace-regexp-in-string
   "[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]+" " " text))

(defun sessiond-title (info)
  "What people call the session of INFO: its name, or part of its id."
  (let ((name (plist-get info :name))
        (id (or (plist-get info :sessionId) "?")))
    (if (and name (not (string-blank-p name)))
        (sessiond-clean name)
      (replace-regexp-in-string "\\`\\(.*/\\)?session-" "\\1" id))))

(defun sessiond-content-text (content)
  "CONTENT of a message, a string or a vector of blocks, as plain text."
  (cond ((stringp content) content)
        ((vectorp content)
         (mapconcat #'sessiond--block-text content "\n"))
        (t "")))

(defun sessiond--block-text (block)
  "The content BLOCK of a message as plain text."
  (let ((text (and (consp block) (plist-get block :text)))
        (inner (and (consp block) (plist-get block :content))))
    (cond ((stringp text) text)
          (inner (sessiond-content-text inner))
          (t (format "[%s]" (or (and (consp block) (plist-get block :type))
                                "something else"))))))

(defconst sessiond--timestamp
  (rx bos (group (= 4 digit)) "-" (group (= 2 digit)) "-" (group (= 2 digit))
      "T" (group (= 2 digit)) ":" (group (= 2 digit)) ":" (+ (any digit ".")) "Z" eos)
  "How the protocol writes a time.")

(defun sessiond-local-time (timestamp)
  "TIMESTAMP of the protocol in local time, to the minute; empty if invalid."
  (if (and (stringp timestamp) (string-match sessiond--timestamp timestamp))
      (pcase-let ((`(,year ,month ,day ,hour ,minute)
                   (mapcar (lambda (n) (string-to-number (match-string n timestamp)))
                           '(1 2 3 4 5))))
        (format-time-string "%Y-%m-%d %H:%M"
                            (encode-time (list 0 minute hour day month year nil nil t))))
    ""))

(provide 'sessiond-text)
;;; sessiond-text.el ends here
