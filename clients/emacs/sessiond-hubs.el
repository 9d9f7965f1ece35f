;;; sessiond-hubs.el --- Whether shared stores are shared now  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 the sessiond authors

;; Author: the sessiond authors
;; SPDX-License-Identifier: MIT

;;; Commentary:

;; The hub of a shared store is where several machines meet.  The daemon says
;; in daemon/status whether it can be reached and how many changes wait here,
;; and in store/hubChanged when that changes.  It is asked once on each
;; connection, and only when a session of another store than the default one
;; is open: that one is never shared.  What it tells while it is being asked is
;; newer than its answer.

;;; Code:

(require 'seq)
(require 'sessiond-connection)

(defvar sessiond-hubs--known nil
  "An alist of shared stores and their HubStatus, as plists.")

(defvar sessiond-hubs--asked nil
  "Whether the daemon was asked on this connection.")

(defvar sessiond-hubs--told nil
  "The stores that the daemon has told of since it was asked.")

(defun sessiond-hubs-need (store)
  "A session of STORE is open: ask for the hubs, unless that was done."
  (unless (or sessiond-hubs--asked
              (member store '(nil "default"))
              (not (sessiond-connected-p)))
    (setq sessiond-hubs--asked t
          sessiond-hubs--told nil)
    (sessiond--send 'daemon/status (make-hash-table)
                    #'sessiond-hubs--answered
                    (lambda (_error) (setq sessiond-hubs--asked nil))
                    sessiond--patience)))

(defun sessiond-hubs--answered (status)
  "Take the hubs out of STATUS, the result of daemon/status."
  (seq-doseq (store (plist-get status :stores))
    (let ((name (plist-get store :name)))
      (when (and (plist-get store :hub)
                 (not (member name sessiond-hubs--told)))
        (sessiond-hubs--take name (plist-get store :hub))))))

(defun sessiond-hubs--take (store hub)
  "HUB is what is known now of the hub of STORE."
  (setf (alist-get store sessiond-hubs--known nil nil #'equal) hub)
  (force-mode-line-update t))

(defun sessiond-hubs--heard (method params)
  "METHOD with PARAMS has arrived."
  (when (eq method 'store/hubChanged)
    (let ((store (plist-get params :store)))
      (push store sessiond-hubs--told)
      (sessiond-hubs--take store (plist-get params :hub)))))

(defun sessiond-hubs--connection-changed (_event _error)
  "The connection is new or gone: nothing is known of hubs."
  (setq sessiond-hubs--known nil
        sessiond-hubs--asked nil
        sessiond-hubs--told nil))

(add-hook 'sessiond-notification-functions #'sessiond-hubs--heard)
;; In front, so that sessions that are opened again find nothing old.
(add-hook 'sessiond-connection-functions #'sessiond-hubs--connection-changed -90)

(defun sessiond-hubs-words (store)
  "What is known of STORE's hub, with a blank in front, or the empty string."
  (let* ((hub (cdr (assoc store sessiond-hubs--known)))
         (pending (or (plist-get hub :pending) 0))
         (waiting (if (> pending 0) (format "%d waiting" pending) "")))
    (cond ((null hub) "")
          ((equal (plist-get hub :state) "offline")
           (concat " " (sessiond-hubs--since (plist-get hub :since))
                   (if (> pending 0) ", " "") waiting))
          ((> pending 0) (concat " " waiting))
          (t " shared"))))

(defun sessiond-hubs--since (stamp)
  "\"offline since\" the time of STAMP, with its date on another day."
  (if-let* ((time (and stamp (ignore-errors (date-to-time stamp)))))
      (format-time-string
       (if (equal (format-time-string "%F" time) (format-time-string "%F"))
           "offline since %H:%M"
         "offline since %F %H:%M")
       time)
    "offline"))

(provide 'sessiond-hubs)
;;; sessiond-hubs.el ends here
