;;; eglot.el --- session files in Emacs' own LSP client  -*- lexical-binding: t; -*-

;; Run by test_stock_clients.py in a batch Emacs with nothing but eglot.  $SESSIOND_FILE is a session's file, $SESSIOND_BROKEN one
;; with a line that cannot be read; results go to $SESSIOND_RESULT, a line each.

;;; Code:

(require 'package)
(add-to-list 'package-directory-list "/usr/share/emacs/site-lisp/elpa") ; where Debian puts it
(package-initialize)
(require 'eglot)
(require 'imenu)
(require 'xref)

(defvar stock-results nil)

(defmacro stock-check (name &rest body)
  "Note as NAME whether BODY ends without an error and not with nil."
  (declare (indent 1))
  `(push (condition-case problem
             (if (progn ,@body) (concat "ok " ,name) (concat "FAILED " ,name))
           (error (format "FAILED %s: %S" ,name problem)))
         stock-results))

(defun stock-wait (holds)
  "Till HOLDS answers something, which is the value."
  (let ((deadline (+ (float-time) 20)) found)
    (while (and (not (setq found (funcall holds))) (< (float-time) deadline))
      (accept-process-output nil 0.02))
    found))

(defun stock-open (variable)
  "Visit the file that the environment's VARIABLE names, with eglot."
  (find-file (getenv variable))
  (fundamental-mode)
  (if (eglot-current-server)
      (eglot--maybe-activate-editing-mode)
    (let ((eglot-sync-connect 20))
      (eglot '(fundamental-mode) (cons 'transient default-directory) 'eglot-lsp-server '("sessiond") "jsonl")))
  (unless eglot--managed-mode (eglot--maybe-activate-editing-mode)))

(defun stock-act (title)
  "Pick the code action whose title has TITLE in it, as a person would; its result."
  (let ((last-nonmenu-event ?a))
    (cl-letf (((symbol-function 'completing-read)
               (lambda (_prompt items &rest _)
                 (car (cl-find-if (lambda (item) (string-match-p title (car item))) items)))))
      (eglot-code-actions (point) (point) nil t))))

(defun stock-names (index)
  "All names in an imenu INDEX, flat."
  (cl-loop for (name . rest) in index
           collect name
           when (consp rest) append (and (consp (car rest)) (stock-names rest))))

(stock-open "SESSIOND_FILE")
(stock-check "it is managed" eglot--managed-mode)
(stock-check "imenu is the outline"
  (let ((names (stock-names (eglot-imenu))))
    (and (cl-some (lambda (name) (string-match-p "Which lock is first" name)) names)
         (cl-some (lambda (name) (string-match-p "grep" name)) names))))
(goto-char (point-min))
(forward-line 2)
(stock-check "hover says who and when"
  (let (said)
    (switch-to-buffer (current-buffer))
    (eglot-hover-eldoc-function (lambda (text &rest _) (setq said (format "%s" text))))
    (string-match-p "m-1" (stock-wait (lambda () said)))))
(stock-check "symbols search all sessions"
  (let ((found (xref-backend-apropos 'eglot "zebra-word")))
    (and (= 1 (length found))
         (= 3 (xref-location-line (xref-item-location (car found)))))))
(stock-check "resume is executed"
  (equal "a" (plist-get (plist-get (stock-act "Resume") :session) :sessionId)))
(stock-check "fork is executed"
  (equal "a" (plist-get (plist-get (plist-get (stock-act "Fork") :session) :parent) :sessionId)))
(stock-check "export is executed"
  (string-match-p "zebra-word" (plist-get (stock-act "Export") :content)))
(stock-open "SESSIOND_BROKEN")
(stock-check "a broken line is a diagnostic"
  (flymake-mode 1)
  (flymake-start)
  (let ((found (stock-wait (lambda () (flymake-diagnostics)))))
    (and (= 1 (length found))
         (= 3 (line-number-at-pos (flymake-diagnostic-beg (car found)))))))

(with-temp-file (getenv "SESSIOND_RESULT")
  (insert (mapconcat #'identity (reverse stock-results) "\n") "\n"))

;;; eglot.el ends here
