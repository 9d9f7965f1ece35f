;;; sessiond-outbox.el --- Changes that are kept until they are answered  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 the sessiond authors

;; Author: the sessiond authors
;; SPDX-License-Identifier: MIT

;;; Commentary:

;; A change that may be repeated without harm is kept here until the daemon has
;; answered it, over as many connections as needed.  Changes that were sent over
;; a lost connection are sent again over the next one, in the same order.

;;; Code:

(require 'cl-lib)
(require 'sessiond-connection)

(cl-defstruct sessiond--entry method params on-result on-error sent)

(defvar sessiond--outbox nil
  "Entries (`sessiond--entry') that are not answered yet, oldest first.")

(defun sessiond--post (method params on-result on-error)
  "Send METHOD with PARAMS, if necessary over the next connection.
ON-RESULT and ON-ERROR as in `sessiond-request'.  Returns the entry."
  (let ((entry (make-sessiond--entry :method method :params params
                                     :on-result (or on-result #'ignore)
                                     :on-error (or on-error #'sessiond-tell-error))))
    (setq sessiond--outbox (nconc sessiond--outbox (list entry)))
    (if (sessiond-connected-p)
        (sessiond--send-entry entry)
      (condition-case err
          (sessiond-connect)
        (sessiond-error
         (sessiond-withdraw entry)
         (signal (car err) (cdr err)))))
    entry))

(defun sessiond--send-entry (entry)
  "Send ENTRY of the outbox."
  (unless (sessiond--entry-sent entry)
    (setf (sessiond--entry-sent entry) t)
    (sessiond--send
     (sessiond--entry-method entry) (sessiond--entry-params entry)
     (lambda (result)
       (when (memq entry sessiond--outbox)
         (sessiond-withdraw entry)
         (funcall (sessiond--entry-on-result entry) result)))
     (lambda (error)
       (if (equal (plist-get error :kind) "disconnected")
           (setf (sessiond--entry-sent entry) nil)
         (when (memq entry sessiond--outbox)
           (sessiond-withdraw entry)
           (funcall (sessiond--entry-on-error entry) error)))))))

(defun sessiond-pending-p (&optional entry)
  "Whether ENTRY, or without it any entry, is not answered yet."
  (and (if entry (memq entry sessiond--outbox) sessiond--outbox) t))

(defun sessiond-withdraw (entry)
  "Forget ENTRY, the value of `sessiond-append' and the like.
It is not sent again; whether it was done is not known."
  (setq sessiond--outbox (delq entry sessiond--outbox)))

(defun sessiond--outbox-connected (event _error)
  "Handle EVENT of the connection: send all entries, or mark them unsent."
  (pcase event
    ('ready (mapc #'sessiond--send-entry sessiond--outbox))
    ('lost (dolist (entry sessiond--outbox)
             (setf (sessiond--entry-sent entry) nil)))))

;; After the functions that open sessions.
(add-hook 'sessiond-connection-functions #'sessiond--outbox-connected 50)
(add-hook 'sessiond--needed-functions #'sessiond-pending-p)

(provide 'sessiond-outbox)
;;; sessiond-outbox.el ends here
