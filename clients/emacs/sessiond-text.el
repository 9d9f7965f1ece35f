;;; sessiond-text.el --- How sessions and messages read  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 the sessiond authors

;; Author: the sessiond authors
;; SPDX-License-Identifier: MIT

;;; Commentary:

;; From values of the protocol to what people see: titles, times, content.
;; Nothing here talks to the daemon.

;;; Code:

(require 'json)
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
  "The content BLOCK of a message as plain text, with all of its words."
  (if (not (and (consp block) (stringp (plist-get block :type))))
      (if (stringp block) block (sessiond-json block))
    (let ((type (plist-get block :type)))
      (pcase type
        ((and (or "text" "input_text" "output_text")
              (guard (stringp (plist-get block :text))))
         (plist-get block :text))
        ((and "thinking" (guard (stringp (plist-get block :thinking))))
         (plist-get block :thinking))
        ("tool_use" (sessiond-call-text (plist-get block :name) (plist-get block :input)))
        ("tool_result"
         (let ((inner (plist-get block :content)))
           (if (or (stringp inner) (vectorp inner))
               (sessiond-content-text inner)
             (sessiond-json inner))))
        ((or "image" "image_url" "input_image") (sessiond--picture-text type block))
        (_ (format "[%s] %s" type (sessiond-json block)))))))

(defun sessiond--picture-text (type block)
  "The picture BLOCK of TYPE as text: its address if it is elsewhere."
  (let* ((source (plist-get block :source))
         (where (or (plist-get block :image_url)
                    (plist-get (if (consp source) source block) :url)))
         (url (if (consp where) (plist-get where :url) where)))
    (if (and (stringp url) (string-prefix-p "http" url))
        (format "[%s: %s]" type url)
      (format "[%s]" type))))

(defun sessiond-call-text (name arguments)
  "One line for the call of the tool NAME with ARGUMENTS."
  (format "→ %s %s" name
          (cond ((stringp arguments) arguments)
                ((null arguments) "")
                (t (sessiond-json arguments)))))

(defun sessiond-json (value)
  "VALUE as the protocol has it, as JSON on one line."
  (let ((text (condition-case nil
                  (json-serialize value :null-object nil :false-object :json-false)
                ;; Numbers beyond 64 bits, or before Emacs 30 what is neither an
                ;; object nor an array.
                (error (let ((json-false :json-false) (json-null nil))
                         (json-encode value))))))
    (if (multibyte-string-p text) text (decode-coding-string text 'utf-8))))

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
