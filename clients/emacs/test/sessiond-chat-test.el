;;; sessiond-chat-test.el --- The chat buffer against a real daemon  -*- lexical-binding: t; -*-

;;; Code:

(require 'sessiond-test-support)
(require 'bookmark)

(sessiond-test sessiond-chat-new-and-send
    "A new conversation is shown, and what is sent is there, for others too."
  (set-buffer (sessiond-new "Größe 日本語 😀"))
  (sessiond-test-until sessiond-compose--opened)
  (should (equal (buffer-name) "*sessiond Größe 日本語 😀*"))
  (should (equal (sessiond-chat--mode-line) " [Größe 日本語 😀:0]"))
  (sessiond-test-type "こんにちは\n世界 👩‍👩‍👧")
  (sessiond-send)
  (should (equal (sessiond-compose-input) ""))
  (sessiond-test-until (not (sessiond-pending-p)))
  (should (string-match-p "\\`◆ user .*\nこんにちは\n世界 👩‍👩‍👧\n" (sessiond-test-shown)))
  (should (= (sessiond-test-times "こんにちは") 1))
  (should (equal (sessiond-test-said sessiond-session-id) '("こんにちは\n世界 👩‍👩‍👧")))
  (sessiond-test-until (equal (sessiond-chat--mode-line) " [Größe 日本語 😀:1]"))
  (should-error (sessiond-send) :type 'user-error))

(sessiond-test sessiond-chat-shows-the-hub
    "Only in a session of a shared store, in words; what is told while we ask is newer."
  (let ((id (sessiond-test-new))
        (now (format-time-string "%FT%T.000Z" nil t)))
    (sessiond-test-open id)
    (cl-flet ((tell (state pending since)
                (sessiond--notified
                 sessiond--connection 'store/hubChanged
                 `(:store "team" :hub (:state ,state :since ,since :pending ,pending)))))
      (tell "offline" 3 now)
      (should (equal (sessiond-chat--mode-line) " [test:0]"))
      (plist-put (sessiond-info id) :store "team")
      (should (equal (sessiond-chat--mode-line)
                     (format-time-string " [test:0] offline since %H:%M, 3 waiting"
                                         (date-to-time now))))
      (tell "offline" 0 "2026-01-11T12:00:00.000Z")
      (should (string-match-p "\\` \\[test:0\\] offline since 2026-01-1[12] [0-9:]\\{5\\}\\'"
                              (sessiond-chat--mode-line)))
      (tell "online" 2 now)
      (should (equal (sessiond-chat--mode-line) " [test:0] 2 waiting"))
      (tell "online" 0 now)
      (should (equal (sessiond-chat--mode-line) " [test:0] shared"))
      (sessiond-hubs--answered '(:stores [(:name "team" :hub (:state "offline" :pending 9))
                                          (:name "old" :hub (:state "online" :pending 1))
                                          (:name "default")]))
      (should (equal (sessiond-chat--mode-line) " [test:0] shared"))
      (should (equal (sessiond-hubs-words "old") " 1 waiting")))
    (sessiond-disconnect)
    (should (equal (sessiond-hubs-words "team") ""))))

(sessiond-test sessiond-chat-follows
    "What others do is shown as they do it."
  (let ((id (sessiond-test-new)))
    (sessiond-test-with-peer peer
      (sessiond-test-open id)
      (sessiond-test-type "not sent yet")
      (sessiond-test-say peer id "hello from elsewhere")
      (sessiond-test-until (= (sessiond-test-times "hello from elsewhere") 1))
      (sessiond-test-ask peer 'session/update :sessionId id :name "renamed")
      (sessiond-test-until (equal (buffer-name) "*sessiond renamed*"))
      (sessiond-test-say peer id "second")
      (sessiond-test-say peer id "third")
      (sessiond-test-until (= (sessiond-test-times "third") 1))
      (sessiond-test-ask peer 'session/truncate :sessionId id :afterSeq 1)
      (sessiond-test-until (= (sessiond-test-times "third") 0))
      (should (= (sessiond-test-times "hello from elsewhere") 1))
      (sessiond-test-ask peer 'session/clear :sessionId id)
      (sessiond-test-until (equal (sessiond-test-shown) ""))
      (should (equal (sessiond-compose-input) "not sent yet")))))

(sessiond-test sessiond-chat-streaming
    "A streamed reply grows in the buffer, with its tool calls at the end."
  (let ((id (sessiond-test-new)))
    (sessiond-test-with-peer peer
      (sessiond-test-open id)
      (sessiond-test-say peer id "昔" :id "r" :status "streaming")
      (sessiond-test-until (string-match-p "  …\n昔" (sessiond-test-shown)))
      (sessiond-test-ask peer 'session/extend :sessionId id :messageId "r" :text "々😀")
      (sessiond-test-until (= (sessiond-test-times "昔々😀") 1))
      (sessiond-test-say peer id "in between")
      (sessiond-test-ask peer 'session/extend :sessionId id :messageId "r" :text "、ある所に")
      (sessiond-test-ask peer 'session/finish :sessionId id :messageId "r"
                         :toolCalls [(:id "c" :name "lookup" :arguments (:q "x"))])
      (sessiond-test-until (= (sessiond-test-times "→ lookup") 1))
      (should (string-match-p "昔々😀、ある所に\n.*lookup.*\n\n◆ assistant.*\nin between"
                              (sessiond-test-shown)))
      (should-not (string-match-p "…" (sessiond-test-shown))))))

(sessiond-test sessiond-chat-cut-off
    "A reply whose writer went away in the middle is shown as interrupted, as far as it came."
  (let* ((id (sessiond-test-new))
         (peer (sessiond-test-peer)))
    (sessiond-test-open id)
    (sessiond-test-say peer id "half a rep" :id "r" :status "streaming")
    (sessiond-test-until (= (sessiond-test-times "half a rep") 1))
    (sessiond-test-leave peer)
    (sessiond-test-until (string-match-p "\\[interrupted\\]\nhalf a rep" (sessiond-test-shown)))))

(defun sessiond-chat-test-while-away (id)
  "Append to session ID from a client of its own, while this Emacs is away."
  (sessiond-test-with-peer peer
    (dotimes (n 3)
      (sessiond-test-say peer id (format "while away %d" n)))
    (sessiond-test-ask peer 'session/extend :sessionId id :messageId "r" :text "b")
    (sessiond-test-ask peer 'session/finish :sessionId id :messageId "r")))

(sessiond-test sessiond-chat-daemon-killed
    "After kill -9 of the daemon under an open buffer nothing is missing and nothing appears twice."
  (let ((id (sessiond-test-new)))
    (sessiond-test-open id)
    (sessiond-test-type "before")
    (sessiond-send)
    (sessiond-append id '((:id "r" :role "assistant" :content "a" :status "streaming")))
    (sessiond-test-until (not (sessiond-pending-p)))
    (sessiond-test-type "typed, not sent")
    (let ((pid (sessiond-test-pid))
          (sessiond--retry-delays [1000]))
      (signal-process pid 'SIGKILL)
      (sessiond-test-until (not (sessiond-connected-p)))
      (should (string-match-p "offline" (sessiond-chat--mode-line)))
      ;; Before we come back, others go on in a new daemon.
      (sessiond-chat-test-while-away id)
      (sessiond-connect))
    (sessiond-test-until (= (sessiond-test-times "while away 2") 1))
    (sessiond-test-until (string-match-p "◆ assistant.*\nab\n" (sessiond-test-shown)))
    (dolist (text '("before" "while away 0" "while away 1" "while away 2"))
      (should (= (sessiond-test-times text) 1)))
    (should (equal (sessiond-compose-input) "typed, not sent"))
    (should (equal (sessiond-test-said id)
                   '("before" "ab" "while away 0" "while away 1" "while away 2")))
    (sessiond-test-until (equal (sessiond-chat--mode-line) " [test:5]"))))

(sessiond-test sessiond-chat-relay-killed
    "After the relay died we come back by ourselves, with a change list that repeats our own."
  (let ((id (sessiond-test-new)))
    (sessiond-test-open id)
    (sessiond-test-with-peer peer
      (sessiond-test-ask peer 'session/open :sessionId id)
      (sessiond-append id '((:id "r" :role "assistant" :content "a" :status "streaming")))
      (sessiond-extend id "r" "b" 1)
      (sessiond-test-say peer id "theirs")
      (sessiond-extend id "r" "c" 2)
      (sessiond-test-until (and (not (sessiond-pending-p))
                                (= (sessiond-test-times "theirs") 1)))
      (let ((sessiond--retry-delays [1000]))
        (delete-process sessiond--process)
        (sessiond-test-until (not (sessiond-connected-p)))
        (sessiond-chat-test-while-away id)
        (sessiond-connect)
        (sessiond-test-until (= (sessiond-test-times "while away 2") 1)))
      (should (string-match-p "\nabcb\n" (sessiond-test-shown)))
      (should (= (sessiond-test-times "theirs") 1))
      (sessiond-test-say peer id "live again")
      (sessiond-test-until (= (sessiond-test-times "live again") 1)))))

(sessiond-test sessiond-chat-large
    "A large message to a daemon that stands still stops nobody, and is there once when it goes on."
  (let* ((id (sessiond-test-new))
         (pid (sessiond-test-pid))
         (sessiond-timeout 0.5)
         (text (apply #'concat (make-list 100000 "0123456789"))))
    (sessiond-test-open id)
    (signal-process pid 'SIGSTOP)
    (unwind-protect
        (progn
          ;; More than all pipes and sockets on the way take.
          (sessiond-test-type text)
          (sessiond-send)
          (sessiond-test-type "typed on"))
      (signal-process pid 'SIGCONT))
    (let ((sessiond-timeout 20))
      (sessiond-test-until (and (sessiond-connected-p) (not (sessiond-pending-p))))
      (should (equal (sessiond-test-said id) (list text))))
    (should (equal (sessiond-compose-input) "typed on"))))

(sessiond-test sessiond-chat-large-and-more
    "What is sent while a large message still waits to be written goes after it, and neither is lost."
  (let* ((id (sessiond-test-new))
         (pid (sessiond-test-pid))
         (text (apply #'concat (make-list 100000 "0123456789"))))
    (sessiond-test-open id)
    (signal-process pid 'SIGSTOP)
    (unwind-protect
        (dolist (say (list text "second" "third"))
          (sessiond-test-type say)
          (sessiond-send))
      (signal-process pid 'SIGCONT))
    (sessiond-test-until (not (sessiond-pending-p)))
    (should (equal (sessiond-test-said id) (list text "second" "third")))))

(sessiond-test sessiond-chat-resync
    "Told that notifications were dropped, we read on from the last seq that we have."
  (let ((id (sessiond-test-new)))
    (sessiond-test-open id)
    (sessiond-test-with-peer peer
      (sessiond-test-say peer id "one" :id "r" :status "streaming")
      (sessiond-test-until (= (sessiond-test-times "one") 1))
      ;; As if the pipe had been full.
      (let ((dropped 0))
        (cl-letf (((symbol-function 'sessiond--happened)
                   (lambda (&rest _) (cl-incf dropped))))
          (sessiond-test-say peer id "two")
          (sessiond-test-ask peer 'session/extend :sessionId id :messageId "r" :text " more")
          (sessiond-test-until (= dropped 2))))
      (sessiond-append id '((:role "user" :content "mine, meanwhile")))
      (sessiond-test-until (not (sessiond-pending-p)))
      (sessiond--heard 'session/resync (list :sessionId id :seq 4))
      (sessiond-test-say peer id "three")
      (sessiond-test-until (= (sessiond-test-times "three") 1))
      (should (string-match-p "one more\n\\(.\\|\n\\)*two\n\\(.\\|\n\\)*mine, meanwhile\n\\(.\\|\n\\)*three\n"
                              (sessiond-test-shown)))
      (should (= (sessiond-test-times "◆ ") 4)))))

(sessiond-test sessiond-chat-outside-edit
    "When somebody has edited the file, the buffer shows what it says now."
  (let* ((id (sessiond-test-new))
         (path (progn
                 (sessiond-test-open id)
                 (sessiond-append id '((:role "user" :content "kept")
                                       (:role "user" :content "spoilt")))
                 (sessiond-test-until (= (sessiond-test-times "spoilt") 1))
                 (plist-get (aref (plist-get (sessiond-call 'session/save
                                                            (list :sessionId id))
                                             :saved)
                                  0)
                            :path))))
    (with-temp-buffer
      (let ((coding-system-for-read 'utf-8-unix)
            (coding-system-for-write 'utf-8-unix))
        (insert-file-contents path)
        (search-forward "spoilt")
        (replace-match "mended")
        (write-region nil nil path nil 'quiet)))
    (sessiond-test-until (= (sessiond-test-times "mended") 1))
    (should (= (sessiond-test-times "kept") 1))
    (should (= (sessiond-test-times "spoilt") 0))))

(sessiond-test sessiond-chat-long
    "Of 20,000 messages the last screen is there at once, and the others when they are asked for."
  (let ((id (sessiond-test-new)))
    (sessiond-test-with-peer peer
      (dotimes (block 4)
        (sessiond-test-ask
         peer 'session/append :sessionId id
         :messages (vconcat
                    (cl-loop for n from (* block 5000) below (* (1+ block) 5000)
                             collect (list :role (if (cl-evenp n) "user" "assistant")
                                           :content (format "message %05d 日本語" n))))))
      (sessiond-test-ask peer 'session/open :sessionId id :last 1))
    (sessiond-test-open id)
    (should (= (hash-table-count sessiond-transcript--seqs) 200))
    (should (= (sessiond-test-times "message 19999") 1))
    (should (= (sessiond-test-times "message 19799") 0))
    (goto-char (point-min))
    (sessiond-chat--at-top)
    (sessiond-test-until (= (hash-table-count sessiond-transcript--seqs) 400))
    (should (= (sessiond-test-times "message 19600") 1))
    ;; A hit far back.
    (sessiond-chat-open id 18001)
    (sessiond-test-until (not sessiond-chat--target))
    (should (looking-at-p ".*\nmessage 18000"))
    (sessiond-chat-earlier t)
    (sessiond-test-until (not sessiond-transcript--more))
    (should (= (hash-table-count sessiond-transcript--seqs) 20000))
    (should (string-prefix-p "◆ user" (sessiond-test-shown)))
    (goto-char (point-min))
    (should (search-forward "message 00000" nil t))
    (should (= (sessiond-test-times "earlier messages") 0))
    (should (= (how-many "^message" (point-min)) 20000))
    (should (= (length (sessiond-transcript-index)) 20000))
    ;; And it goes on being live.
    (sessiond-test-type "the newest")
    (sessiond-send)
    (sessiond-test-until (= (sessiond-test-times "the newest") 1))))

(sessiond-test sessiond-chat-draft
    "What was typed is kept at most once a second, and taken out of the state when it was sent."
  (let* ((id (sessiond-test-new))
         (draft (lambda ()
                  (plist-get (plist-get (sessiond-call 'state/get (list :sessionId id))
                                        :values)
                             :draft:emacs))))
    (sessiond-test-open id)
    (sessiond-test-with-peer peer
      (sessiond-test-ask peer 'session/open :sessionId id)
      (let ((start (float-time)))
        (while (< (- (float-time) start) 1.5)
          (sessiond-test-type "ぁ😀")
          (accept-process-output nil 0.02)))
      (let ((typed (sessiond-compose-input)))
        (sessiond-test-until (equal (funcall draft) typed)))
      (should (<= (cl-count 'session/changed (sessiond-test-peer-heard peer) :key #'car)
                  3)))
    (sessiond-send)
    (sessiond-test-until (not (sessiond-pending-p)))
    (sessiond-test-until (null (funcall draft)))
    ;; The buffer goes away: kept at once.
    (sessiond-test-type "second\nthought")
    (kill-buffer)
    (sessiond-test-until (not (sessiond-pending-p)))
    (should (equal (funcall draft) "second\nthought"))
    (sessiond-test-open id)
    (should (equal (sessiond-compose-input) "second\nthought"))))

(sessiond-test sessiond-chat-refused
    "What the daemon refuses comes back below the line, in front of what was typed meanwhile."
  (let ((id (sessiond-test-new)))
    (sessiond-test-open id)
    (sessiond-test-type "precious")
    (cl-letf* ((send (symbol-function 'sessiond--send))
               ((symbol-function 'sessiond--send)
                (lambda (method params on-result on-error &optional patience)
                  (if (eq method 'session/append)
                      (run-at-time 0.05 nil on-error
                                   '(:kind "readOnly" :message "the disk is full"))
                    (funcall send method params on-result on-error patience)))))
      (sessiond-send)
      (should (equal (sessiond-compose-input) ""))
      (should (string-match-p "\\[sending\\]\nprecious"
                              (buffer-substring-no-properties
                               sessiond-transcript--end sessiond-compose--line)))
      (sessiond-test-type "next")
      (sessiond-test-until (equal (sessiond-compose-input) "precious\n\nnext")))
    (should (equal (current-message) nil))
    (should (= (sessiond-test-times "sending") 0))
    (should-not (sessiond-pending-p))
    (should (equal (sessiond-test-shown) ""))
    ;; Bytes that are no text.
    (delete-region sessiond-compose--input (point-max))
    (sessiond-test-type (concat "bad " (string #x3fff80)))
    (sessiond-send)
    (should (equal (sessiond-compose-input) (concat "bad " (string #x3fff80))))))

(sessiond-test sessiond-chat-no-program
    "With no program on the path the text stays where it was typed."
  (sessiond-test-open (sessiond-test-new))
  (sessiond-disconnect)
  (let ((sessiond-server '("no-such-sessiond")))
    (sessiond-test-type "still here")
    (should (string-match-p "No program"
                            (cadr (should-error (sessiond-send) :type 'user-error))))
    (should (equal (sessiond-compose-input) "still here"))
    (should-not (sessiond-pending-p))
    (should-error (sessiond-new) :type 'user-error)
    (should-error (sessiond-switch "x") :type 'user-error)))

(sessiond-test sessiond-chat-leaving-emacs
    "Emacs is not left without a question while the daemon is away and does not have what was typed."
  (let ((asked 0))
    (cl-letf (((symbol-function 'yes-or-no-p) (lambda (_prompt) (cl-incf asked) nil))
              ((symbol-function 'may-leave)
               (lambda () (run-hook-with-args-until-failure 'kill-emacs-query-functions))))
      (sessiond-test-open (sessiond-test-new))
      (sessiond-test-type "only here")
      (should (funcall 'may-leave))
      (sessiond-disconnect)
      (should-not (funcall 'may-leave))
      (should (= asked 1))
      (delete-region sessiond-compose--input (point-max))
      (should (funcall 'may-leave))
      (should (= asked 1)))))

(sessiond-test sessiond-chat-too-large
    "A message that is longer than the daemon takes stays in the input, and we say why."
  (let ((long (make-string 500 ?é))
        (said nil))
    (sessiond-test-open (sessiond-test-new))
    (should (natnump sessiond--message-bytes))
    (sessiond-test-type long)
    (cl-letf ((sessiond--message-bytes 1000)
              ((symbol-function 'message)
               (lambda (format &rest args) (push (apply #'format-message format args) said))))
      (sessiond-send))
    (should (string-match-p "longer than the 1000 bytes that the daemon takes at once" (car said)))
    (should (equal (sessiond-compose-input) long))
    (should-not (sessiond-pending-p))
    (should-not (sessiond-test-said sessiond-session-id))))

(sessiond-test sessiond-chat-deleted
    "When somebody deletes the session, what was typed stays, and sending says why not."
  (let ((id (sessiond-test-new)))
    (sessiond-test-open id)
    (sessiond-test-type "orphan")
    (sessiond-test-with-peer peer
      (sessiond-test-say peer id "last words")
      (sessiond-test-until (= (sessiond-test-times "last words") 1))
      (sessiond-test-ask peer 'session/delete :sessionId id))
    (sessiond-test-until sessiond-compose--deleted)
    (should-error (sessiond-send) :type 'user-error)
    (should (equal (sessiond-compose-input) "orphan"))
    (should (= (sessiond-test-times "last words") 1))
    ;; What was typed since is nowhere else.
    (sessiond-test-type " words")
    (cl-letf (((symbol-function 'yes-or-no-p) #'ignore))
      (should-not (sessiond-chat--may-leave-emacs)))
    (kill-buffer)))

(sessiond-test sessiond-chat-moved
    "Whoever shows a session that was moved is told where it is now."
  (let ((id (sessiond-test-new))
        (folder (make-temp-file "shelf" t)))
    (sessiond-test-open id)
    (sessiond-test-with-peer peer
      (sessiond-test-say peer id "words")
      (sessiond-test-until (= (sessiond-test-times "words") 1))
      (sessiond-test-ask peer 'store/adopt :path folder :name "shelf" :format "jsonl")
      (sessiond-test-ask peer 'session/move :sessionId id :store "shelf"))
    (sessiond-test-until sessiond-compose--deleted)
    (with-current-buffer (messages-buffer)
      (should (string-search (concat "was moved elsewhere, and is shelf/" id) (buffer-string))))
    (sessiond-test-type "for the other place")
    (should (string-search (concat "is shelf/" id " now")
                           (cadr (should-error (sessiond-send) :type 'user-error))))
    (should (string-suffix-p " moved" (sessiond-chat--mode-line)))
    (kill-buffer)))

(sessiond-test sessiond-chat-restored
    "A session that was deleted and restored is open again when one switches to it."
  (let ((id (sessiond-test-new)))
    (sessiond-test-open id)
    (sessiond-test-type "orphan")
    (sessiond-test-with-peer peer
      (sessiond-test-ask peer 'session/delete :sessionId id)
      (sessiond-test-until sessiond-compose--deleted)
      (sessiond-test-ask peer 'session/restore :sessionId id)
      (sessiond-switch id)
      (sessiond-test-until (not sessiond-compose--deleted))
      (should (equal (sessiond-compose-input) "orphan"))
      (sessiond-send)
      (sessiond-test-until (equal (sessiond-test-said id) '("orphan")))
      (sessiond-test-say peer id "again")
      (sessiond-test-until (= (sessiond-test-times "again") 1)))))

(sessiond-test sessiond-chat-deleted-under-a-draft
    "A draft that was on its way when the session was deleted covers nothing of what is said."
  (let ((said nil))
    (sessiond-test-open (sessiond-test-new))
    (cl-letf (((symbol-function 'message)
               (lambda (format &rest args) (push (apply #'format-message format args) said))))
      (funcall (sessiond-compose--draft-failed)
               '(:kind "sessionNotFound" :message "no session"))
      (should-not said)
      (should sessiond-compose--draft-refused)
      (funcall (sessiond-compose--draft-failed)
               '(:kind "readOnly" :message "the disk is full"))
      (should (string-match-p "the disk is full" (car said))))
    (kill-buffer)))

(sessiond-test sessiond-chat-close
    "Leaving a chat saves the session, and closes it."
  (let* ((id (sessiond-test-new)))
    (sessiond-test-open id)
    (sessiond-test-type "to be saved")
    (sessiond-send)
    (sessiond-test-until (not (sessiond-pending-p)))
    (sessiond-close)
    (should-not (sessiond-chat-buffer id))
    (let ((info (car (sessiond-list))))
      (should (equal (plist-get info :sessionId) id))
      (sessiond-test-until
        (with-temp-buffer
          (ignore-errors (insert-file-contents (plist-get info :path)))
          (search-forward "to be saved" nil t)))
      (sessiond-test-until (eql (plist-get (car (sessiond-list)) :attached) 0))))
  (with-temp-buffer
    (should-error (sessiond-close) :type 'user-error)))

(sessiond-test sessiond-chat-bookmark
    "A bookmark leads back to the session."
  (let ((id (sessiond-test-new)))
    (sessiond-test-open id)
    (let ((bookmark (bookmark-make-record)))
      (should (equal (car bookmark) "test"))
      (kill-buffer)
      (bookmark-jump bookmark)
      (should (equal sessiond-session-id id)))))

(provide 'sessiond-chat-test)
;;; sessiond-chat-test.el ends here
