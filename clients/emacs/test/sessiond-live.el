;;; sessiond-live.el --- One side of a conversation between programs  -*- lexical-binding: t; -*-

;;; Commentary:

;; Tests run this Emacs beside another program:
;;
;;     emacs -Q --batch -L clients/emacs -L clients/emacs/test -l sessiond-live \
;;       --eval '(sessiond-live-exchange "ID" "what it says" "what it waits for")'

;;; Code:

(require 'sessiond-test-support)

(defun sessiond-live-exchange (id say see)
  "Say SAY in session ID, and wait until SEE is shown, and only once."
  (sessiond-test-open id)
  (sessiond-test-type say)
  (sessiond-send)
  (sessiond-test-until (and (not (sessiond-pending-p))
                            (= (sessiond-test-times see) 1)
                            (= (sessiond-test-times say) 1)))
  (princ (sessiond-test-shown)))

(defun sessiond-live-see (id see)
  "Wait until session ID shows SEE."
  (sessiond-test-open id)
  (sessiond-test-until (= (sessiond-test-times see) 1))
  (princ (sessiond-test-shown)))

(defun sessiond-live-print (sessions)
  "Print what is shown of each of SESSIONS.
They are lists of an id and its number of messages."
  (pcase-dolist (`(,id ,count) sessions)
    (sessiond-test-open id)
    (sessiond-chat-earlier t)
    (sessiond-test-until (= (hash-table-count sessiond-transcript--seqs) count))
    (princ (concat (sessiond-test-shown) "\f"))
    (kill-buffer)))

(defun sessiond-live-mode-line (id words)
  "Wait until the mode line of session ID has each of WORDS; print it each time.
WORDS are regular expressions."
  (sessiond-test-open id)
  (dolist (one words)
    (sessiond-test-until (string-match-p one (sessiond-chat--mode-line)))
    (princ (concat (sessiond-chat--mode-line) "\n") #'external-debugging-output)))

(defun sessiond-live-type (id text)
  "Type TEXT in session ID, do not send it, and stay."
  (sessiond-test-open id)
  (sessiond-test-type text)
  (while t
    (accept-process-output nil 1)))

(defun sessiond-live-input (id)
  "Print what stands below the line in session ID."
  (sessiond-test-open id)
  (princ (sessiond-compose-input)))

(defun sessiond-live-leave (id text)
  "Type TEXT in session ID and end Emacs at once, in an orderly way."
  (sessiond-test-open id)
  (sessiond-test-type text)
  (kill-emacs 0))

(provide 'sessiond-live)
;;; sessiond-live.el ends here
