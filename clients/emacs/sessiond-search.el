;;; sessiond-search.el --- Find what was said in any session  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 the sessiond authors

;; Author: the sessiond authors
;; SPDX-License-Identifier: MIT

;;; Commentary:

;; `sessiond-search' asks the daemon and shows the hits in a buffer: `RET'
;; goes to the message in its chat buffer, `next-error' does so for one hit
;; after another, `+' shows more of them.  The daemon's documentation describes
;; queries: words, "a phrase", wor*, -without, OR, role:user, tag:x, in:name,
;; before:2026-01-31, ...

;;; Code:

(require 'cl-lib)
(require 'sessiond)

(declare-function sessiond-chat-open "sessiond-chat" (id &optional seq words))
(autoload 'sessiond-chat-open "sessiond-chat")

(defvar sessiond-search-history nil "What was searched for.")

(defvar-local sessiond-search--params nil "What was asked for in this buffer.")
(defvar-local sessiond-search--fresh nil "Non-nil until a hit was visited.")
(defvar-local sessiond-search--cursor nil "Where the next page begins, or nil.")

(defvar sessiond-search-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'sessiond-search-visit)
    (define-key map (kbd "n") #'next-error-no-select)
    (define-key map (kbd "p") #'previous-error-no-select)
    (define-key map (kbd "+") #'sessiond-search-more)
    (define-key map (kbd "s") #'sessiond-search)
    map)
  "Keys of `sessiond-search-mode'.")

(define-derived-mode sessiond-search-mode special-mode "Session-Search"
  "What was found in sessions.

\\{sessiond-search-mode-map}"
  :interactive nil
  (setq-local next-error-function #'sessiond-search--next
              revert-buffer-function (lambda (&rest _) (sessiond-search--ask nil))
              truncate-lines t))

;;;###autoload
(defun sessiond-search (query &optional regexp)
  "Show the messages in all sessions that match QUERY.
With prefix argument REGEXP, it is a Python regular expression."
  (interactive
   (list (read-string (if current-prefix-arg "Search sessions (regexp): "
                        "Search sessions: ")
                      nil 'sessiond-search-history)
         current-prefix-arg))
  (when (string-blank-p query)
    (user-error "There is nothing to search for"))
  (sessiond-with-errors
    (let ((buffer (get-buffer-create (format "*sessiond search: %s*"
                                             (sessiond-clean query)))))
      (with-current-buffer buffer
        (sessiond-search-mode)
        (setq sessiond-search--params
              (list :query query :mode (if regexp "regex" "text") :limit 50))
        (sessiond-search--ask nil))
      (pop-to-buffer buffer))))

(defun sessiond-search-more ()
  "Show more hits."
  (interactive)
  (if sessiond-search--cursor
      (sessiond-with-errors (sessiond-search--ask sessiond-search--cursor))
    (message "There are no more hits")))

(defun sessiond-search--ask (cursor)
  "Ask for the page of hits at CURSOR, nil for the first, and show it."
  (let ((buffer (current-buffer)))
    (sessiond-request
     'session/search `(,@sessiond-search--params ,@(and cursor `(:cursor ,cursor)))
     :on-error (lambda (error)
                 (when (buffer-live-p buffer)
                   (with-current-buffer buffer
                     (sessiond-search--say (sessiond-error-text error))))
                 (sessiond-tell-error error))
     :on-result (lambda (result)
                  (when (buffer-live-p buffer)
                    (with-current-buffer buffer
                      (sessiond-search--show result cursor)))))))

(defun sessiond-search--say (text)
  "Show TEXT instead of hits."
  (let ((inhibit-read-only t))
    (erase-buffer)
    (insert (sessiond-clean text) "\n")))

(defun sessiond-search--show (result more)
  "Show the page of hits RESULT, after those shown if MORE is non-nil."
  (let ((inhibit-read-only t)
        (total (plist-get result :total)))
    (setq sessiond-search--cursor (plist-get result :nextCursor))
    (save-excursion
      (if more
          (goto-char (point-max))
        (sessiond-search--say
         (format "%s for %s%s"
                 (if (eql total 1) "1 hit" (format "%s hits" total))
                 (plist-get sessiond-search--params :query)
                 (if (eq (plist-get result :incomplete) t)
                     " (the index is being rebuilt: more may follow)" "")))
        (goto-char (point-max))
        (insert "\n"))
      (seq-doseq (hit (plist-get result :hits))
        (sessiond-search--insert hit)))
    (unless more
      (setq sessiond-search--fresh t)
      (goto-char (or (next-single-property-change (point-min) 'sessiond-hit) (point-min)))
      (dolist (window (get-buffer-window-list nil nil t))
        (set-window-point window (point))))))

(defun sessiond-search--insert (hit)
  "Insert HIT at point."
  (let ((beg (point)))
    (insert (propertize (sessiond-title hit) 'face 'bold)
            (propertize (format "  %s  %s"
                                (or (plist-get hit :role) "name or note")
                                (sessiond-local-time (plist-get hit :timestamp)))
                        'face 'shadow)
            "\n  " (sessiond-search--snippet hit) "\n")
    (put-text-property beg (point) 'sessiond-hit hit)))

(defun sessiond-search--snippet (hit)
  "The snippet of HIT on one line, with what was found highlighted."
  (let ((snippet (copy-sequence (or (plist-get hit :snippet) ""))))
    (seq-doseq (range (plist-get hit :ranges))
      (put-text-property (min (aref range 0) (length snippet))
                         (min (aref range 1) (length snippet))
                         'face 'match snippet))
    ;; One character for each, so that the highlighting stays in place.
    (replace-regexp-in-string "[\u0000-\u001f\u007f-\u009f\u2028\u2029]" " " snippet)))

(defun sessiond-search--found (hit)
  "What the ranges of HIT hold: the words that were found."
  (let ((snippet (or (plist-get hit :snippet) "")))
    (mapcar (lambda (range)
              (substring snippet (min (aref range 0) (length snippet))
                         (min (aref range 1) (length snippet))))
            (plist-get hit :ranges))))

(defun sessiond-search-visit ()
  "Show the message at point in its session."
  (interactive)
  (let ((hit (or (get-text-property (point) 'sessiond-hit)
                 (user-error "There is no hit here"))))
    (setq sessiond-search--fresh nil)
    (sessiond-with-errors
      (let ((display-buffer-overriding-action ; the hits stay in view
             '((display-buffer-reuse-window display-buffer-pop-up-window
                                            display-buffer-use-some-window)
               (inhibit-same-window . t))))
        (sessiond-chat-open (plist-get hit :sessionId) (plist-get hit :seq)
                            (sessiond-search--found hit))))))

(defun sessiond-search--next (count reset)
  "Visit the COUNTth next hit, from the first one if RESET is non-nil."
  (when reset
    (goto-char (point-min)))
  ;; Point is on the first hit, which was not visited yet.
  (when (and sessiond-search--fresh (not reset) (> count 0)
             (get-text-property (point) 'sessiond-hit))
    (setq count (1- count)))
  (dotimes (_ (abs count))
    (let ((next (if (< count 0)
                    #'previous-single-property-change
                  #'next-single-property-change))
          (at (point)))
      (while (and (setq at (funcall next at 'sessiond-hit))
                  (not (get-text-property at 'sessiond-hit))))
      (goto-char (or at (user-error "There are no more hits")))))
  (let ((window (get-buffer-window)))
    (when window
      (set-window-point window (point))))
  (sessiond-search-visit))

(provide 'sessiond-search)
;;; sessiond-search.el ends here
