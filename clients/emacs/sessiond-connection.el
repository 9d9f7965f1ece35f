;;; sessiond-connection.el --- The connection to the sessiond daemon  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 the sessiond authors

;; Author: the sessiond authors
;; SPDX-License-Identifier: MIT

;;; Commentary:

;; One `jsonrpc-process-connection' for all of Emacs, and its states:
;;
;;     nil --sessiond-connect--> connecting --initialize answered--> ready
;;      ^                            |                                 |
;;      +------- the process ended --+---------------------------------+
;;
;; Requests made while it is connecting wait until it is ready, or fail with
;; the reason why it never became ready.  Code that needs the connection says
;; so in `sessiond--needed-functions'; then a lost connection is made again.
;; This file knows nothing about sessions: code that does is in
;; `sessiond-connection-functions' and `sessiond-notification-functions'.

;;; Code:

(require 'cl-lib)
(require 'json)
(require 'jsonrpc)
(require 'subr-x)

(defgroup sessiond nil
  "Conversations kept by the sessiond daemon."
  :group 'tools
  :prefix "sessiond-")

(defcustom sessiond-server '("sessiond")
  "How to reach the daemon.
A list of strings is a command that speaks the protocol on its
standard input and output; it starts the daemon if none is running.
A plist (:host HOST :port PORT :token-file FILE) is a daemon that
listens on TCP, for example at the near end of an SSH tunnel."
  :type '(choice (repeat :tag "Command" string)
                 (plist :tag "TCP" :key-type symbol)))

(defcustom sessiond-timeout 5
  "How many seconds a command waits for the daemon before it gives up."
  :type 'number)

(defcustom sessiond-log-events nil
  "Whether to log what is sent and received to the jsonrpc events buffer."
  :type 'boolean)

(defconst sessiond-protocol-version 1
  "The version of the protocol that this client speaks.")

(defconst sessiond--patience 30
  "Seconds after which a request without an answer counts as failed.")

(defconst sessiond--retry-delays [0 0.5 1 2 5 10 30]
  "Seconds to wait before each attempt to connect again.")

;; A condition whose data is (TEXT KIND DATA).  It is a `user-error', so that
;; it reaches the echo area and not the debugger.
(define-error 'sessiond-error "sessiond" 'user-error)

;;; Errors

;; Inside this package an error is a plist with :kind, :message, :hint and
;; :data.  Kinds are the protocol's, and two of our own: "disconnected" and
;; "timeout".

(defun sessiond--error (raw)
  "Make an error plist of RAW, the error object of an answer."
  (let* ((data (plist-get raw :data))
         (data (and (consp data) data)))
    (list :kind (cond ((eql (plist-get raw :code) -1) "disconnected")
                      ((plist-get data :kind))
                      ((eql (plist-get raw :code) -32601) "methodNotFound")
                      (t "internalError"))
          :message (or (plist-get raw :message) "an error without a message")
          :hint (plist-get data :hint)
          :data data)))

(defun sessiond-error-kind (error)
  "The kind of ERROR as a string, see the errors in docs/protocol.md.
ERROR is what an `:on-error' function gets, or a caught condition."
  (if (keywordp (car-safe error)) (plist-get error :kind) (nth 2 error)))

(defun sessiond-error-text (error)
  "One line for people about ERROR."
  (let ((message (plist-get error :message))
        (hint (plist-get error :hint)))
    (concat message
            (cond ((and hint (not (string-empty-p hint))) (format " (%s)" hint))
                  ((equal (plist-get error :kind) "methodNotFound")
                   " (the daemon is older than this client: restart it with `sessiond stop')")))))

(defun sessiond--signal (error)
  "Signal ERROR, a plist, as a `sessiond-error'."
  (signal 'sessiond-error (list (sessiond-error-text error)
                                (plist-get error :kind)
                                (plist-get error :data))))

(defun sessiond-tell-error (error)
  "Show ERROR in the echo area."
  (message "sessiond: %s" (sessiond-error-text error)))

(defmacro sessiond-with-errors (&rest body)
  "Run BODY of a command; make its errors one clean line for people."
  (declare (indent 0) (debug t))
  `(condition-case err
       (progn ,@body)
     (sessiond-error (user-error "sessiond: %s" (cadr err)))))

(defmacro sessiond--guarded (&rest body)
  "Run BODY in a notification or an answer, where errors cannot be caught."
  (declare (indent 0) (debug t))
  `(let ((sessiond--dispatching t))
     (with-demoted-errors "sessiond: %S" ,@body)))


;;; The connection

(defvar sessiond--connection nil "The connection, or nil.")
(defvar sessiond--process nil "The process of `sessiond--connection'.")
(defvar sessiond--state nil
  "The state of `sessiond--connection': nil, `connecting' or `ready'.")
(defvar sessiond--reason nil "Why the connection was given up, if we know.")
(defvar sessiond--message-bytes nil
  "How many bytes the daemon takes as one message, nil before it has said so.")
(defvar sessiond--waiting nil
  "Requests that wait for the connection to be ready, newest first.
Each is a function of one argument: nil to send it, or an error.")
(defvar sessiond-connection-functions nil
  "Called with (EVENT ERROR) when the connection changes.
EVENT is `ready', `lost', or `unreachable' with an ERROR.")
(defvar sessiond-notification-functions nil
  "Called with (METHOD PARAMS) for each notification from the daemon.")
(defvar sessiond--needed-functions nil
  "Functions; one returns non-nil while somebody needs the connection.")
(defvar sessiond--retry-timer nil "The timer that will reconnect, or nil.")
(defvar sessiond--retries 0 "How often we have tried to reconnect.")
(defvar sessiond--ready-since 0 "When the connection became ready.")
(defvar sessiond--dispatching nil "Non-nil inside a notification.")

;; A full pipe that nobody reads would block `process-send-string'.  By then it
;; has put what it could not write into a queue, in front of everything that is
;; sent later, so it can be interrupted and resumed.

(defclass sessiond--jsonrpc (jsonrpc-process-connection)
  ((pipe :initform nil :accessor sessiond--pipe :documentation "The process.")
   (pump :initform nil :accessor sessiond--pump
         :documentation "The timer that sends what waits in the queue, or nil."))
  :documentation "A connection on which sending never blocks.")

(defconst sessiond--send-seconds 0.1
  "How long sending may block us at a time.")

(cl-defmethod jsonrpc-connection-send :around ((connection sessiond--jsonrpc) &rest _)
  "Send over CONNECTION, or leave the rest of it to the pump."
  (with-timeout (sessiond--send-seconds
                 ;; The pump may have run while we waited, and a timer that is
                 ;; exited by a throw never runs again: take a new one.
                 (progn
                   (when (sessiond--pump connection)
                     (cancel-timer (sessiond--pump connection)))
                   (setf (sessiond--pump connection)
                         (run-at-time sessiond--send-seconds sessiond--send-seconds
                                      #'sessiond--send-more connection))))
    (cl-call-next-method)))

(defun sessiond--send-more (connection)
  "Send more of what waits in the queue of CONNECTION, until nothing is left."
  (let ((process (sessiond--pipe connection)))
    (when (or (not (process-live-p process))
              (with-timeout (sessiond--send-seconds nil)
                (ignore-errors (process-send-string process ""))
                t))
      (cancel-timer (sessiond--pump connection))
      (setf (sessiond--pump connection) nil))))

(defun sessiond--new-process (name)
  "Start or reach `sessiond-server' as process NAME."
  (if (keywordp (car sessiond-server))
      (make-network-process :name name
                            :host (plist-get sessiond-server :host)
                            :service (plist-get sessiond-server :port)
                            :coding 'utf-8-emacs-unix
                            :noquery t)
    (make-process :name name
                  :command sessiond-server
                  :connection-type 'pipe
                  :coding 'utf-8-emacs-unix
                  :noquery t
                  ;; jsonrpc.el looks for standard error under this name.
                  :stderr (get-buffer-create (format "*%s stderr*" name)))))

(defvar sessiond--reading nil
  "Whether what is being read came over a connection of ours.")

(defun sessiond--read-json (read &rest arguments)
  "Call READ with ARGUMENTS; what it cannot read is read by json.el.
The parser in C, until Emacs 30, takes no numbers beyond 64 bits, so that
a message with one would be lost, and its session never shown."
  (if (not sessiond--reading)
      (apply read arguments)
    (let ((start (point)))
      (condition-case nil
          (apply read arguments)
        (error
         (goto-char start)
         (let ((json-object-type 'plist)
               (json-array-type 'vector)
               (json-false :json-false)
               (json-null nil))
           (json-read)))))))

(advice-add 'jsonrpc--json-read :around #'sessiond--read-json)

(defun sessiond--set-reader (process)
  "Have what comes from PROCESS read by `sessiond--read-json'."
  (let ((filter (process-filter process)))
    (set-process-filter process (lambda (process text)
                                  (let ((sessiond--reading t))
                                    (funcall filter process text))))))

(defun sessiond--open-connection (name on-notification on-end)
  "Make a connection called NAME; return it and its process as a cons.
ON-NOTIFICATION and ON-END are as for `jsonrpc-process-connection'."
  (let* ((size (if sessiond-log-events 2000000 0))
         (default-directory (expand-file-name "~/"))
         process
         (start (lambda () (setq process (sessiond--new-process name)))))
    (when (and (stringp (car sessiond-server))
               (not (executable-find (car sessiond-server))))
      (signal 'sessiond-error
              (list (format "No program %s; install it, or set `sessiond-server'"
                            (car sessiond-server))
                    "disconnected" nil)))
    (condition-case err
        (let ((connection
               (apply #'make-instance 'sessiond--jsonrpc
                      :name name
                      :process start
                      :notification-dispatcher on-notification
                      :on-shutdown on-end
                      ;; The slot has had another name since Emacs 30.
                      (if (memq '-events-buffer-config
                                (mapcar #'eieio-slot-descriptor-name
                                        (eieio-class-slots 'jsonrpc-connection)))
                          (list :events-buffer-config
                                (list :size size :format 'full))
                        (list :events-buffer-scrollback-size size)))))
          (sessiond--set-reader process)
          (setf (sessiond--pipe connection) process)
          (cons connection process))
      (sessiond-error (signal (car err) (cdr err)))
      (error (signal 'sessiond-error
                     (list (error-message-string err) "disconnected" nil))))))

(defun sessiond-connected-p ()
  "Whether the daemon is connected right now."
  (eq sessiond--state 'ready))

(defun sessiond-connect ()
  "Start connecting to the daemon, unless that was already done.
Returns at once.  Signals `sessiond-error' if there is nothing to start."
  (unless sessiond--connection
    (sessiond--cancel-retry)
    (setq sessiond--reason nil)
    (pcase-let ((`(,connection . ,process)
                 (sessiond--open-connection
                  "sessiond" #'sessiond--notified #'sessiond--ended)))
      (setq sessiond--connection connection
            sessiond--process process
            sessiond--state 'connecting)
      ;; A process that ends at once may have ended before jsonrpc.el set its
      ;; sentinel, which then is never called.
      (unless (process-live-p process)
        (run-at-time 0.1 nil #'sessiond--ended connection))
      (sessiond--send
       'initialize (sessiond--initialize-params)
       (lambda (result) (sessiond--welcomed connection result))
       (lambda (error)
         ;; If the process died, its last words say more.
         (unless (equal (plist-get error :kind) "disconnected")
           (sessiond--give-up connection (sessiond-error-text error))))))))

(defun sessiond--initialize-params ()
  "What we tell the daemon about ourselves."
  (let ((token-file (and (keywordp (car sessiond-server))
                         (plist-get sessiond-server :token-file))))
    `( :processId ,(emacs-pid)
       :clientInfo (:name "emacs" :version ,emacs-version)
       :rootUri nil
       :capabilities ,(make-hash-table)
       ,@(when token-file
           `( :initializationOptions
              (:token ,(sessiond--file-text token-file)))))))

(defun sessiond--file-text (file)
  "The content of FILE without white space around it; empty if it is unreadable."
  (with-temp-buffer
    (ignore-errors (insert-file-contents file))
    (string-trim (buffer-string))))

(defun sessiond--notified (connection method params)
  "METHOD with PARAMS has arrived over CONNECTION."
  (when (eq connection sessiond--connection)
    (sessiond--guarded
      (run-hook-with-args 'sessiond-notification-functions method params))))

(defun sessiond--welcomed (connection result)
  "CONNECTION was initialized with RESULT: go on, if that is our daemon."
  (when (eq connection sessiond--connection)
    (let* ((capabilities (plist-get result :capabilities))
           (ours (plist-get (plist-get capabilities :experimental) :sessiond))
           (version (plist-get ours :protocolVersion)))
      (cond
       ((null version)
        (sessiond--give-up connection "This is not a sessiond daemon; check `sessiond-server'"))
       ((< version sessiond-protocol-version)
        (sessiond--give-up
         connection
         (format "The daemon is too old (protocol %s, we need %s); update it, then run `sessiond stop'"
                 version sessiond-protocol-version)))
       (t
        (setq sessiond--message-bytes
              (plist-get (plist-get ours :limits) :messageBytes))
        (sessiond--ready))))))

(defun sessiond--ready ()
  "Do everything that waited for the connection."
  (setq sessiond--state 'ready
        sessiond--ready-since (float-time))
  (jsonrpc-notify sessiond--connection 'initialized (make-hash-table))
  (run-hook-with-args 'sessiond-connection-functions 'ready nil)
  (let ((waiting (nreverse sessiond--waiting)))
    (setq sessiond--waiting nil)
    (dolist (send waiting)
      (funcall send nil))))

(defun sessiond--give-up (connection reason)
  "End CONNECTION, which cannot be used because of REASON, a string."
  (when (eq connection sessiond--connection)
    (unless sessiond--reason
      (setq sessiond--reason reason))
    (delete-process sessiond--process)))

(defun sessiond--ended (connection)
  "The process behind CONNECTION is gone."
  (when (eq connection sessiond--connection)
    (let ((was-ready (sessiond-connected-p))
          (waiting (nreverse sessiond--waiting)))
      (setq sessiond--connection nil
            sessiond--process nil
            sessiond--state nil
            sessiond--waiting nil)
      (cond
       ((not was-ready)
        (sessiond--listen-to-the-end connection waiting 20))
       (t
        (when (> (- (float-time) sessiond--ready-since) 5)
          (setq sessiond--retries 0))
        (run-hook-with-args 'sessiond-connection-functions 'lost nil)
        (sessiond--retry))))))

(defun sessiond--listen-to-the-end (connection waiting tries)
  "Tell WAITING that CONNECTION failed, once standard error has been read.
What was said there may be a moment behind.  TRIES is how often to look."
  (let ((buffer (jsonrpc-stderr-buffer connection)))
    (if (and (> tries 0) (buffer-live-p buffer)
             (process-live-p (get-buffer-process buffer)))
        (run-at-time 0.05 nil #'sessiond--listen-to-the-end
                     connection waiting (1- tries))
      (run-at-time 0 nil #'sessiond--unreachable connection waiting))))

(defun sessiond--unreachable (connection waiting)
  "CONNECTION was never ready; tell all who wait, including WAITING."
  (let* ((said (and (stringp (car sessiond-server))
                    (sessiond--last-words connection)))
         (reason (or sessiond--reason said "The daemon cannot be reached"))
         (error (list :kind "disconnected" :message reason)))
    (dolist (send waiting)
      (funcall send error))
    (run-hook-with-args 'sessiond-connection-functions 'unreachable error)
    (sessiond--retry)))

(defun sessiond--last-words (connection)
  "What the process behind CONNECTION said last on its standard error, or nil."
  (let ((buffer (jsonrpc-stderr-buffer connection)))
    (when (buffer-live-p buffer)
      (with-current-buffer buffer
        (save-excursion
          (goto-char (point-max))
          (when (re-search-backward "^sessiond: \\(.+\\)" nil t)
            (match-string-no-properties 1)))))))

(defun sessiond--cancel-retry ()
  "Do not reconnect automatically."
  (when sessiond--retry-timer
    (cancel-timer sessiond--retry-timer)
    (setq sessiond--retry-timer nil)))

(defun sessiond--retry ()
  "Reconnect in a while, if anybody needs the connection."
  (sessiond--cancel-retry)
  (when (run-hook-with-args-until-success 'sessiond--needed-functions)
    (let ((delay (aref sessiond--retry-delays
                       (min sessiond--retries
                            (1- (length sessiond--retry-delays))))))
      (cl-incf sessiond--retries)
      (setq sessiond--retry-timer (run-at-time delay nil #'sessiond--try)))))

(defun sessiond--try ()
  "Reconnect; on failure say so, and try again later."
  (setq sessiond--retry-timer nil)
  (condition-case err
      (sessiond-connect)
    (sessiond-error
     (run-hook-with-args 'sessiond-connection-functions 'unreachable
                         (list :kind "disconnected" :message (cadr err)))
     (sessiond--retry))))

(defun sessiond-disconnect ()
  "Disconnect from the daemon until a command needs it again."
  (interactive)
  (sessiond--cancel-retry)
  (when sessiond--process
    (let ((process sessiond--process))
      (setq sessiond--connection nil
            sessiond--process nil
            sessiond--state nil)
      (delete-process process)
      (run-hook-with-args 'sessiond-connection-functions 'lost nil))))


;;; Requests

(defun sessiond--check-size (method params)
  "Signal an error if METHOD with PARAMS is longer than the daemon takes.
It would end the connection, and the request would be sent again for ever."
  (when (and sessiond--message-bytes
             (> (string-bytes (jsonrpc--json-encode
                               (list :jsonrpc "2.0" :id most-positive-fixnum
                                     :method (symbol-name method) :params params)))
                sessiond--message-bytes))
    (signal 'sessiond-error
            (list (format "This is longer than the %d bytes that the daemon takes at once (send it in parts)"
                          sessiond--message-bytes)
                  "tooLarge" nil))))

(defun sessiond--send (method params on-result on-error &optional patience)
  "Send METHOD with PARAMS now; call ON-RESULT or ON-ERROR later.
After PATIENCE seconds, if given, it has failed."
  (condition-case err
      (progn
        (sessiond--check-size method params)
        (jsonrpc-async-request
         sessiond--connection method params
         :timeout patience
         :timeout-fn (lambda ()
                       (sessiond--guarded
                         (funcall on-error (sessiond--no-answer method))))
         :success-fn (lambda (result)
                       (sessiond--guarded (funcall on-result result)))
         :error-fn (lambda (raw)
                     (sessiond--guarded (funcall on-error (sessiond--error raw))))))
    (sessiond-error
     (funcall on-error (list :kind (nth 2 err) :message (cadr err))))
    (wrong-type-argument
     (funcall on-error (list :kind "invalidParams"
                             :message "The text contains bytes that are not characters")))
    (error
     (funcall on-error
              (list :kind (if (process-live-p sessiond--process)
                              "invalidParams"
                            "disconnected")
                    :message (error-message-string err))))))

(defun sessiond--no-answer (method)
  "The error of a request for METHOD that got no answer."
  (list :kind "timeout" :message (format "The daemon did not answer %s in time" method)))

(cl-defun sessiond-request (method params &key on-result on-error)
  "Ask the daemon for METHOD, a symbol, with PARAMS; return at once.
ON-RESULT gets the result, ON-ERROR an error plist (`:kind',
`:message', `:hint', `:data'), shown in the echo area by default.
A request is sent once the connection is ready.
Signals `sessiond-error' if the daemon cannot be started."
  (let* ((on-result (or on-result #'ignore))
         (on-error (or on-error #'sessiond-tell-error))
         (send (lambda (error)
                 (if error
                     (sessiond--guarded (funcall on-error error))
                   (sessiond--send method params on-result on-error
                                   sessiond--patience)))))
    (if (sessiond-connected-p)
        (funcall send nil)
      ;; First, because a process that ends at once tells those who wait.
      (push send sessiond--waiting)
      (condition-case err
          (sessiond-connect)
        (sessiond-error
         (setq sessiond--waiting (delq send sessiond--waiting))
         (signal (car err) (cdr err)))))
    nil))

(defun sessiond-call (method params &optional timeout)
  "Ask the daemon for METHOD, a symbol, with PARAMS, and return the result.
Waits no longer than TIMEOUT seconds, by default `sessiond-timeout'.
Signals `sessiond-error' with (TEXT KIND DATA)."
  (when sessiond--dispatching
    (error "A notification must not wait for the daemon"))
  (let ((deadline (+ (float-time) (or timeout sessiond-timeout)))
        (outcome nil))
    (sessiond-request method params
                      :on-result (lambda (result) (setq outcome (list t result)))
                      :on-error (lambda (error) (setq outcome (list nil error))))
    ;; Not `jsonrpc-request': before Emacs 30 it exits the filter by a throw,
    ;; and anything that arrived after the answer is then stuck there.
    (while (and (null outcome) (< (float-time) deadline))
      (accept-process-output nil 0.05))
    (pcase outcome
      (`(t ,result) result)
      (`(nil ,error) (sessiond--signal error))
      (_ (setq outcome '(late))
         (sessiond--signal (sessiond--no-answer method))))))


(provide 'sessiond-connection)
;;; sessiond-connection.el ends here
