;;; sessiond-gptel-test.el --- gptel's hooks, run as gptel runs them  -*- lexical-binding: t; -*-

;;; Commentary:

;; gptel need not be installed.  The stub below has its public hooks, and does
;; to a buffer what gptel does: the response behind the prompt, marked with
;; the text property `gptel', in one piece or in many.

;;; Code:

(require 'sessiond-test-support)
(require 'sessiond-gptel)

(defvar gptel-model 'some-model)
(defvar gptel-post-request-hook nil)
(defvar gptel-pre-response-hook nil)
(defvar gptel-post-stream-hook nil)
(defvar gptel-post-response-functions nil)
(defvar gptel-save-state-hook nil)
(defun gptel-prompt-prefix-string () "What a prompt begins with." "### ")
(defun gptel-response-prefix-string () "What a response begins with." "> ")

(defun sessiond-gptel-test-insert (text)
  "Insert TEXT of a response at point."
  (insert (propertize text 'gptel 'response 'front-sticky '(gptel))))

(defun sessiond-gptel-test-send (pieces &optional fails)
  "Send what stands before point; the response comes in PIECES.
One piece comes as a whole, several are streamed.  With FAILS the
request fails after them."
  (run-hooks 'gptel-post-request-hook)
  (let ((beg (point)) (end (point)))
    (when pieces
      (run-hooks 'gptel-pre-response-hook)
      (insert "\n\n" (gptel-response-prefix-string))
      (setq beg (point))
      (dolist (piece pieces)
        (sessiond-gptel-test-insert piece)
        (when (cdr pieces)
          (save-excursion (run-hooks 'gptel-post-stream-hook))
          (accept-process-output nil 0.01)))
      (setq end (point)))
    (when fails
      (setq end beg))
    (run-hook-with-args 'gptel-post-response-functions beg end)
    (insert "\n\n" (gptel-prompt-prefix-string))))

(defmacro sessiond-gptel-test-with (&rest body)
  "Run BODY in a buffer as gptel has them, with the mode on."
  `(with-current-buffer (generate-new-buffer "*gptel talk*")
     (insert (gptel-prompt-prefix-string))
     (sessiond-gptel-mode)
     (prog1 (progn ,@body)
       (set-buffer-modified-p nil))))

(defun sessiond-gptel-test-messages ()
  "Role, content and status of what the session of this buffer holds."
  (sessiond-test-until (and sessiond-session-id (not (sessiond-pending-p))))
  (mapcar (lambda (message)
            (list (plist-get message :role) (plist-get message :content)
                  (plist-get message :status)))
          (plist-get (sessiond-call 'session/read (list :sessionId sessiond-session-id))
                     :messages)))

(sessiond-test sessiond-gptel-whole
    "A prompt is kept when it is sent, its response when it is there, without prefixes."
  (sessiond-gptel-test-with
   (insert "質問 one?")
   (run-hooks 'gptel-post-request-hook)
   (should (equal (sessiond-gptel-test-messages) '(("user" "質問 one?" nil))))
   (sessiond-gptel-test-send '("答え 😀\n\nin two paragraphs"))
   (insert "two?")
   (sessiond-gptel-test-send '("yes"))
   (should (equal (sessiond-gptel-test-messages)
                  '(("user" "質問 one?" nil)
                    ("assistant" "答え 😀\n\nin two paragraphs" nil)
                    ("user" "two?" nil)
                    ("assistant" "yes" nil))))
   (sessiond-test-until (equal (sessiond-gptel--lighter) " [*gptel talk*:4]"))
   (should (equal (plist-get (sessiond-info sessiond-session-id) :model) "some-model"))))

(sessiond-test sessiond-gptel-request-hook-elsewhere
    "Where the hook of a request runs in another buffer the prompt is kept with the beginning of its response."
  (sessiond-gptel-test-with
   (let ((buffer (current-buffer)))
     (insert "質問 one?")
     (with-temp-buffer
       (insert "not ours")
       (run-hooks 'gptel-post-request-hook))
     (set-buffer buffer)
     (insert "\n\n" (gptel-response-prefix-string))
     (let ((beg (point)))
       (sessiond-gptel-test-insert "答え")
       (run-hook-with-args 'gptel-post-response-functions beg (point)))
     (should (equal (sessiond-gptel-test-messages)
                    '(("user" "質問 one?" nil) ("assistant" "答え" nil)))))))

(sessiond-test sessiond-gptel-before-there-is-a-session
    "What is said before the daemon has made the session is in it."
  (sessiond-gptel-test-with
   (insert "early")
   (sessiond-gptel-test-send '("bird"))
   (should-not sessiond-session-id)
   (should (equal (sessiond-gptel-test-messages)
                  '(("user" "early" nil) ("assistant" "bird" nil))))))

(sessiond-test sessiond-gptel-streamed
    "A streamed response grows in the session, where a chat buffer shows it, and ends as done."
  (sessiond-gptel-test-with
   (let ((buffer (current-buffer))
         (sessiond-gptel--pause 0)
         chat)
     (sessiond-test-until sessiond-session-id)
     (setq chat (sessiond-chat-open sessiond-session-id))
     (with-current-buffer chat (sessiond-test-until sessiond-compose--opened))
     (set-buffer buffer)
     (insert "tell")
     (let ((seen nil))
       (add-hook 'gptel-post-stream-hook
                 (lambda ()
                   (sessiond-test-until (not (sessiond-pending-p)))
                   (push (with-current-buffer chat (sessiond-test-shown)) seen))
                 t t)
       (sessiond-gptel-test-send '("昔" "々😀" "、" "ある" "所に"))
       (should (equal (sessiond-gptel-test-messages)
                      '(("user" "tell" nil) ("assistant" "昔々😀、ある所に" "done"))))
       (cl-mapc (lambda (shown expected)
                  (should (string-suffix-p (concat "…\n" expected "\n\n") shown)))
                (nreverse seen)
                '("昔" "昔々😀" "昔々😀、" "昔々😀、ある" "昔々😀、ある所に")))
     (with-current-buffer chat
       (sessiond-test-until (string-match-p "昔々😀、ある所に\n" (sessiond-test-shown)))
       (should (= (sessiond-test-times "昔") 1))))))

(sessiond-test sessiond-gptel-failed
    "A request that fails leaves the prompt, and a response that breaks off is interrupted."
  (sessiond-gptel-test-with
   (sessiond-test-until sessiond-session-id)
   (insert "ask")
   (sessiond-gptel-test-send nil t)
   (goto-char (point-max))
   (sessiond-gptel-test-send '("half " "an ") t)
   (should (equal (sessiond-gptel-test-messages)
                  '(("user" "ask" nil) ("assistant" "half " "interrupted"))))))

(sessiond-test sessiond-gptel-adopts
    "A buffer that holds a conversation already brings it along."
  (with-current-buffer (generate-new-buffer "*old talk*")
    (insert "### old question\n\n> ")
    (sessiond-gptel-test-insert "old answer")
    (insert "\n\n### begun")
    (sessiond-gptel-mode)
    (insert " and finished")
    (sessiond-gptel-test-send '("new answer"))
    (should (equal (mapcar #'cadr (sessiond-gptel-test-messages))
                   '("old question" "old answer" "begun and finished" "new answer")))
    (let ((id sessiond-session-id))
      (sessiond-gptel-mode -1)
      (should-not sessiond-session-id)
      (should-not (sessiond-info id))
      (should-not (memq #'sessiond-gptel--sent gptel-post-request-hook)))))

(sessiond-test sessiond-gptel-remembers
    "A file remembers its session, and goes on in it without saying anything twice."
  (let ((file (make-temp-file "talk" nil ".txt"))
        id)
    (unwind-protect
        (progn
          (with-current-buffer (find-file-noselect file)
            (insert "### ")
            (sessiond-gptel-mode)
            (insert "first")
            (sessiond-gptel-test-send '("answer"))
            (sessiond-gptel-test-messages)
            (setq id sessiond-session-id)
            (run-hooks 'gptel-save-state-hook)
            (save-buffer)
            (kill-buffer))
          (with-current-buffer (find-file-noselect file)
            (should (equal sessiond-gptel-session id))
            ;; gptel restores its text properties from the file.
            (goto-char (point-min))
            (search-forward "answer")
            (put-text-property (match-beginning 0) (match-end 0) 'gptel 'response)
            (sessiond-gptel-mode)
            (should (equal sessiond-session-id id))
            (goto-char (point-min))
            (search-forward "answer\n\n### ")
            (insert "second")
            (sessiond-gptel-test-send '("again"))
            (should (equal (mapcar #'cadr (sessiond-gptel-test-messages))
                           '("first" "answer" "second" "again")))
            (set-buffer-modified-p nil)))
      (delete-file file))))

(sessiond-test sessiond-gptel-no-daemon
    "Without a daemon gptel goes on undisturbed."
  (let ((sessiond-server '("no-such-sessiond")))
    (sessiond-gptel-test-with
     (insert "hello")
     (sessiond-gptel-test-send '("to" "you"))
     (should-not sessiond-session-id)
     (should (string-match-p "toyou" (buffer-string)))
     (setq sessiond-server (list sessiond-test-program))
     (goto-char (point-max))
     (insert "there now?")
     (sessiond-gptel-test-send '("yes"))
     (should (equal (mapcar #'cadr (sessiond-gptel-test-messages))
                    '("hello" "toyou" "there now?" "yes"))))))

(provide 'sessiond-gptel-test)
;;; sessiond-gptel-test.el ends here
