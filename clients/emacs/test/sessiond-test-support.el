;;; sessiond-test-support.el --- What the suites share  -*- lexical-binding: t; -*-

;;; Commentary:

;; The suites talk to a real daemon.  The program `sessiond' is looked for on
;; the path, or named by the environment variable SESSIOND; SESSIOND_HOME must
;; be a throwaway folder.  Whoever made that stops its daemon.

;;; Code:

(require 'ert)
(require 'sessiond)
(require 'sessiond-chat)

(unless (getenv "SESSIOND_HOME")
  (error "Set SESSIOND_HOME to a throwaway folder"))

(defconst sessiond-test-program (or (getenv "SESSIOND") "sessiond"))

(setq sessiond-server (list sessiond-test-program)
      sessiond-timeout 20
      gc-cons-threshold 100000000)

(defun sessiond-test-reset ()
  "Forget all, as if this Emacs had just been started."
  (setq sessiond--outbox nil
        sessiond--waiting nil
        sessiond--retries 0)
  (dolist (buffer (buffer-list))
    (with-current-buffer buffer
      (when (or sessiond-session-id (derived-mode-p 'sessiond-search-mode))
        (setq sessiond-session-id nil)
        (set-buffer-modified-p nil)
        (let ((kill-buffer-hook nil))
          (kill-buffer buffer)))))
  (clrhash sessiond--sessions)
  (sessiond-disconnect))

(defmacro sessiond-test (name claim &rest body)
  "Define NAME, a test whose CLAIM holds if BODY runs through."
  (declare (indent 2) (doc-string 2))
  `(ert-deftest ,name ()
     ,claim
     (unwind-protect (progn ,@body)
       (sessiond-test-reset))))

(defmacro sessiond-test-until (&rest condition)
  "Wait until CONDITION holds, and return its value.  Fails after a while."
  `(sessiond-test--until (lambda () ,@condition) ',condition))

(defun sessiond-test--until (function form)
  "Wait until FUNCTION returns non-nil; FORM is how it is written."
  (let ((deadline (+ (float-time) 20))
        (value nil))
    (while (not (setq value (funcall function)))
      (when (> (float-time) deadline)
        (ert-fail (list "never came true" form
                        (buffer-name) (buffer-string))))
      (accept-process-output nil 0.01))
    value))

;;; The other side

(cl-defstruct sessiond-test-peer connection process heard)

(defun sessiond-test-peer (&optional name)
  "Another client with a connection of its own, called NAME."
  (let* ((peer (make-sessiond-test-peer))
         (pair (sessiond--open-connection
                (or name "other")
                (lambda (_connection method params)
                  (setf (sessiond-test-peer-heard peer)
                        (append (sessiond-test-peer-heard peer)
                                (list (cons method params)))))
                #'ignore)))
    (setf (sessiond-test-peer-connection peer) (car pair)
          (sessiond-test-peer-process peer) (cdr pair))
    peer))

(defun sessiond-test-leave (peer)
  "PEER disconnects."
  (delete-process (sessiond-test-peer-process peer)))

(defmacro sessiond-test-with-peer (peer &rest body)
  "Run BODY with PEER bound to another client."
  (declare (indent 1))
  `(let ((,peer (sessiond-test-peer)))
     (unwind-protect (progn ,@body)
       (sessiond-test-leave ,peer))))

(defun sessiond-test-answer (peer method params)
  "What PEER is answered to METHOD with PARAMS: (t RESULT) or (nil ERROR)."
  (let (outcome)
    (jsonrpc-async-request
     (sessiond-test-peer-connection peer) method params :timeout 20
     :success-fn (lambda (result) (setq outcome (list t result)))
     :error-fn (lambda (error) (setq outcome (list nil error))))
    (sessiond-test-until outcome)))

(defun sessiond-test-ask (peer method &rest params)
  "The result that PEER gets for METHOD with PARAMS."
  (pcase (sessiond-test-answer peer method params)
    (`(t ,result) result)
    (`(nil ,error) (ert-fail (list method error)))))

(defun sessiond-test-next (peer method)
  "The params of the next notification METHOD that PEER hears."
  (cdr (sessiond-test-until
        (let (found)
          (while (and (not found) (sessiond-test-peer-heard peer))
            (let ((one (pop (sessiond-test-peer-heard peer))))
              (when (eq (car one) method)
                (setq found one))))
          found))))

(defun sessiond-test-say (peer id text &rest more)
  "PEER appends TEXT to session ID, with MORE fields."
  (sessiond-test-ask peer 'session/append
                     :sessionId id
                     :messages (vector `(:role "assistant" :content ,text ,@more))))

(defun sessiond-test-pid ()
  "The process id of the daemon."
  (plist-get (sessiond-call 'daemon/hello nil) :pid))

(defun sessiond-test-new (&rest params)
  "The id of a new session, made with PARAMS; its name is \"test\" unless given."
  (let ((params (if (plist-member params :name) params `(:name "test" ,@params))))
    (plist-get (plist-get (sessiond-call 'session/new params) :session) :sessionId)))

(defun sessiond-test-said (id)
  "The contents of the messages of session ID."
  (mapcar (lambda (message) (plist-get message :content))
          (plist-get (sessiond-call 'session/read (list :sessionId id :last 1000))
                     :messages)))

;;; Chat buffers

(defun sessiond-test-open (id &optional seq)
  "Open the chat buffer of session ID, at SEQ, and wait until it is shown."
  (set-buffer (sessiond-chat-open id seq))
  (sessiond-test-until sessiond-compose--opened)
  (current-buffer))

(defun sessiond-test-shown ()
  "The transcript of the current buffer."
  (buffer-substring-no-properties sessiond-transcript--start sessiond-transcript--end))

(defun sessiond-test-times (text)
  "How often TEXT stands in the current buffer."
  (save-excursion
    (goto-char (point-min))
    (let ((count 0))
      (while (search-forward text nil t)
        (cl-incf count))
      count)))

(defun sessiond-test-type (text)
  "Type TEXT below the line."
  (goto-char (point-max))
  (insert text))

(provide 'sessiond-test-support)
;;; sessiond-test-support.el ends here
