;;; sessiond-connection-test.el --- The connection, and what it survives  -*- lexical-binding: t; -*-

;;; Code:

(require 'sessiond-test-support)

(defun sessiond-connection-test-fake (answer)
  "A command that gives ANSWER, JSON, to the first request, and then is silent."
  (list "sh" "-c" "printf 'Content-Length: %d\\r\\n\\r\\n%s' ${#0} \"$0\"; exec cat >/dev/null"
        answer))

(defun sessiond-connection-test-failure (&rest server)
  "What people read when SERVER is the `sessiond-server'."
  (let ((sessiond-server server))
    (unwind-protect
        (cadr (should-error (sessiond-call 'daemon/status nil) :type 'sessiond-error))
      (sessiond-disconnect))))

(sessiond-test sessiond-connection-errors
    "An error has a kind for programs, and a message with a hint for people."
  (let ((err (should-error (sessiond-call 'session/open '(:sessionId "none"))
                           :type 'sessiond-error)))
    (should (equal (sessiond-error-kind err) "sessionNotFound")))
  (let ((err (should-error (sessiond-call 'session/nonsense nil) :type 'sessiond-error)))
    (should (equal (sessiond-error-kind err) "methodNotFound"))
    (should (string-match-p "older\\|nonsense" (cadr err)))))

(sessiond-test sessiond-connection-deadline
    "A call that nobody answers ends in time."
  (let ((sessiond-server '("sleep" "1000"))
        (sessiond-timeout 0.2))
    (let ((err (should-error (sessiond-call 'daemon/status nil) :type 'sessiond-error)))
      (should (equal (sessiond-error-kind err) "timeout")))))

(sessiond-test sessiond-connection-no-program
    "Without the program there is a clear word, at once."
  (should (string-match-p "No program no-such-sessiond"
                          (sessiond-connection-test-failure "no-such-sessiond"))))

(sessiond-test sessiond-connection-last-words
    "When the relay gives up, what it said is what people read."
  (should (equal (sessiond-connection-test-failure
                  "sh" "-c" "echo 'sessiond: no daemon could be started' >&2; exit 69")
                 "no daemon could be started")))

(sessiond-test sessiond-connection-older
    "A daemon that is too old, or none at all, is refused with a clear word."
  (should (string-match-p
           "too old"
           (apply #'sessiond-connection-test-failure
                  (sessiond-connection-test-fake
                   "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"capabilities\":{\"experimental\":{\"sessiond\":{\"protocolVersion\":0}}}}}"))))
  (should (string-match-p
           "not a sessiond"
           (apply #'sessiond-connection-test-failure
                  (sessiond-connection-test-fake
                   "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"capabilities\":{}}}")))))

(sessiond-test sessiond-connection-token
    "Over TCP the token opens the door, and a wrong one is a clear word."
  (let* ((output (generate-new-buffer " *tcp*"))
         (listener (make-process :name "tcp" :buffer output :noquery t
                                 :command (list sessiond-test-program
                                                "--tcp" "127.0.0.1:0")))
         (wrong (make-temp-file "sessiond-token" nil nil "wrong")))
    (unwind-protect
        (let* ((port (with-current-buffer output
                       (sessiond-test-until
                         (goto-char (point-min))
                         (and (re-search-forward "127\\.0\\.0\\.1:\\([0-9]+\\)" nil t)
                              (string-to-number (match-string 1))))))
               (server (lambda (file)
                         (list :host "127.0.0.1" :port port :token-file file)))
               (file (with-current-buffer output
                       (sessiond-test-until
                         (goto-char (point-min))
                         (and (re-search-forward "\\(/[^ \n]*token[^ \n]*\\)" nil t)
                              (match-string 1))))))
          (should (string-match-p "token" (apply #'sessiond-connection-test-failure
                                                 (funcall server wrong))))
          (let ((sessiond-server (funcall server file)))
            (should (plist-get (sessiond-call 'daemon/status nil) :pid))))
      (delete-process listener)
      (kill-buffer output)
      (delete-file wrong))))

(sessiond-test sessiond-connection-no-waiting-in-notifications
    "What is called by a notification cannot wait for the daemon."
  (let ((id (sessiond-test-new))
        (outcome nil)
        (debug-on-error nil))
    (sessiond-attach id (lambda (event _data)
                          (when (eq event 'changed)
                            (setq outcome (condition-case err
                                              (sessiond-call 'daemon/status nil)
                                            (error (error-message-string err)))))))
    (sessiond-append id '((:role "user" :content "x")))
    (sessiond-test-until outcome)
    (should (string-match-p "must not wait" outcome))))

(sessiond-test sessiond-connection-outbox
    "What was sent to a daemon that died is sent again, and is there once."
  (let* ((id (sessiond-test-new))
         (pid (sessiond-test-pid))
         (count 0))
    (signal-process pid 'SIGSTOP)
    (dotimes (n 5)
      (sessiond-append id (list (list :role "user" :content (format "日本語 %d" n)))
                       :on-result (lambda (_) (cl-incf count))))
    (sessiond-append id '((:id "r" :role "assistant" :content "a" :status "streaming")))
    (sessiond-extend id "r" "b" 1)
    (sessiond-finish id "r" :on-result (lambda (_) (cl-incf count)))
    (should (sessiond-pending-p))
    (signal-process pid 'SIGKILL)
    (sessiond-test-until (= count 6))
    (should-not (sessiond-pending-p))
    (should (equal (sessiond-test-said id)
                   '("日本語 0" "日本語 1" "日本語 2" "日本語 3" "日本語 4" "ab")))
    (should-not (= pid (sessiond-test-pid)))))

(sessiond-test sessiond-connection-listeners
    "Everyone who listens hears every change, our own too, and an open session stays open for the other."
  (let* ((id (sessiond-test-new))
         (heard (list nil nil))
         (listen (lambda (n)
                   (lambda (event data)
                     (when (eq event 'changed)
                       (dolist (change data)
                         (push (plist-get change :kind) (nth n heard)))))))
         (first (funcall listen 0))
         (second (funcall listen 1)))
    (sessiond-attach id first)
    (sessiond-attach id second)
    (sessiond-call 'daemon/hello nil)
    (sessiond-append id '((:role "user" :content "x")))
    (sessiond-update id '(:name "n"))
    (sessiond-add-note id "H" "c")
    (sessiond-set-state id '(:k 1))
    (sessiond-truncate id 0)
    (sessiond-test-until (equal (car (nth 1 heard)) "truncated"))
    (should (equal (nth 0 heard) '("truncated" "state" "note" "updated" "appended")))
    (should (equal (nth 0 heard) (nth 1 heard)))
    (sessiond-detach id first)
    (sessiond-test-with-peer peer
      (sessiond-test-say peer id "still there")
      (sessiond-test-until (equal (car (nth 1 heard)) "appended")))
    (sessiond-detach id second)
    (should-not (sessiond-info id))))

(sessiond-test sessiond-connection-count
    "The count of messages is right, whoever wrote them, and after a truncation."
  (let ((id (sessiond-test-new)))
    (sessiond-attach id #'ignore)
    (sessiond-test-with-peer peer
      (sessiond-test-ask peer 'session/open :sessionId id)
      (dotimes (_ 3)
        (sessiond-append id '((:role "user" :content "mine")))
        (sessiond-test-say peer id "theirs"))
      (sessiond-test-until (eql (plist-get (sessiond-info id) :messageCount) 6))
      (sessiond-test-ask peer 'session/update :sessionId id :name "x")
      (sessiond-test-say peer id "one more")
      (sessiond-test-until (eql (plist-get (sessiond-info id) :messageCount) 7))
      (sessiond-test-ask peer 'session/truncate :sessionId id :afterSeq 2)
      (sessiond-test-until (eql (plist-get (sessiond-info id) :messageCount) 2))
      (should (equal (sessiond-mode-line id) "[x:2]")))))

(provide 'sessiond-connection-test)
;;; sessiond-connection-test.el ends here
