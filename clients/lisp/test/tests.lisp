;;;; What holds, against a real daemon.

(in-package "SESSIOND-TEST")

(defparameter *odd* (format nil "日本語 😀 ~C[31m ~C ~C \"\\ ~C end" (code-char 27) (code-char 0) (code-char 127) #\Tab)
  "Characters that have gone wrong somewhere before.")

(deftest values-survive
    "Every value of JSON comes back from the daemon as it was sent, odd characters and keys included."
  (with-client (client)
    (let ((value (obj "a b" (vector 1 -9223372036854775808 9223372036854775807 1.5d0 1d-7 t :false :null *odd* (obj))
                      "jsonrpc" "2.0" "日本" (vector))))
      (let ((session (new-session client :metadata value)))
        (check (equalp (ref (session-info session) "metadata") value))))
    (check-error "invalidParams" (new-session client :name (string (code-char #xD800))))))

(deftest said-and-resumed
    "What is said is there when the session is opened again, by another client too."
  (let (id)
    (with-client (client)
      (let ((session (new-session client :name "名前")))
        (setf id (session-id session))
        (say session *odd*)
        (say session "answer" :role :assistant)
        (check (equal (texts session) (list *odd* "answer")))))
    (with-client (client)
      (let ((session (open-session client id)))
        (check (equal (session-name session) "名前"))
        (check (equal (texts session) (list *odd* "answer")))
        (check (equal (ref (session-messages session) 1 "role") "assistant"))))))

(deftest live
    "Two clients on one session hear each other, once, in order, and nobody hears itself."
  (with-client (a)
    (with-client (b :name "other")
      (let* ((mine (new-session a)) (theirs (open-session b (session-id mine)))
             (at-mine (recorder mine)) (at-theirs (recorder theirs)))
        (dotimes (nth 20)
          (say mine (format nil "a~D" nth))
          (say theirs (format nil "b~D" nth)))
        (eventually (and (= (length (texts mine)) 40) (= (length (texts theirs)) 40)))
        (check (equal (texts mine) (texts theirs)))
        (eventually (= 20 (length (heard-texts at-mine)) (length (heard-texts at-theirs))))
        (check (equal (heard-texts at-mine) (loop for nth below 20 collect (format nil "b~D" nth))))
        (check (equal (heard-texts at-theirs) (loop for nth below 20 collect (format nil "a~D" nth))))))))

(deftest a-listener-may-ask
    "A listener may ask the daemon things, and one that fails stops nobody."
  (with-client (a)
    (with-client (b)
      (let* ((mine (new-session a)) (theirs (open-session b (session-id mine))))
        (add-listener theirs (lambda (kind change session)
                               (when (and (eq kind :appended) (equal (ref change "messages" 0 "role") "user"))
                                 (say session (format nil "you said ~A" (text-of (ref change "messages" 0)))
                                      :role :assistant)
                                 (let ((*error-output* (make-broadcast-stream))) (error "a fault of the listener's")))))
        (say mine "one")
        (say mine "two")
        (eventually (= 4 (length (texts mine))))
        (check (equal (remove "you" (texts mine) :key (lambda (text) (subseq text 0 3)) :test-not #'equal)
                      '("you said one" "you said two")))))))

(deftest streaming
    "A reply grows at the other client while it is written, and is whole at both afterwards."
  (with-client (a)
    (with-client (b)
      (let* ((mine (new-session a)) (theirs (open-session b (session-id mine))) (heard (recorder theirs)))
        (with-reply (out mine)
          (out "一つ ")
          (eventually (equal (texts theirs) '("一つ ")))
          (check (equal (ref (session-messages theirs) 0 "status") "streaming"))
          (out "😀 ")
          (out "three"))
        (eventually (equal (ref (session-messages theirs) 0 "status") "done"))
        (check (equal (texts theirs) '("一つ 😀 three")))
        (check (equal (texts mine) '("一つ 😀 three")))
        (eventually (equal (mapcar #'first (funcall heard)) '(:appended :extended :extended :extended :finished)))))))

(deftest a-slow-listener
    "It is told of a message as it was appended, though the copy here has grown since."
  (with-client (a)
    (with-client (b)
      (let* ((mine (new-session a)) (theirs (open-session b (session-id mine))) (told '()))
        (add-listener theirs (lambda (kind change session)
                               (when (eq kind :appended)
                                 (eventually (equal (texts session) '("Once upon a time")))
                                 (push (ref change "messages" 0 "content") told))))
        (with-reply (out mine) (out "Once upon") (out " a time"))
        (eventually told)
        (check (equal told '("")))))))

(deftest streaming-that-fails
    "A reply whose writer fails ends as an error, one that is left as interrupted; what came is kept."
  (with-client (client)
    (let ((session (new-session client)))
      (ignore-errors (with-reply (out session) (out "half") (error "no more")))
      (block nil (with-reply (out session) (out "left") (return)))
      (check (equal (texts session) '("half" "left")))
      (check (equal (map 'list (lambda (one) (ref one "status")) (session-messages session)) '("error" "interrupted"))))))

(deftest a-writer-that-dies
    "Where the writer of a reply goes away it ends as interrupted at the others."
  (with-client (a)
    (let* ((mine (new-session a)) (writer (connect)) (theirs (open-session writer (session-id mine))))
      (extend-reply theirs (start-reply theirs) "half a")
      (disconnect writer)
      (eventually (equal (ref (session-messages mine) 0 "status") "interrupted"))
      (check (equal (texts mine) '("half a"))))))

(deftest killed-daemon
    "kill -9 of the daemon under two clients that talk: they come back by themselves, nothing is lost or there twice."
  (with-client (a)
    (with-client (b)
      (let* ((mine (new-session a)) (theirs (open-session b (session-id mine))) (at-mine (recorder mine)))
        (dotimes (nth 3)
          (say mine (format nil "a~D" nth))
          (say theirs (format nil "b~D" nth))
          (kill-daemon a))
        (say theirs "last")
        (eventually (= 7 (length (texts mine)) (length (texts theirs))))
        (check (equal (texts mine) '("a0" "b0" "a1" "b1" "a2" "b2" "last")))
        (check (equal (texts mine) (texts theirs)))
        (check (equal (texts mine) (on-disk a (session-id mine))))
        (eventually (equal (heard-texts at-mine) '("b0" "b1" "b2" "last")))))))

(deftest missed-while-away
    "What others do while a client has no connection is told afterwards, once and in order."
  (with-client (a)
    (with-client (b)
      (let* ((mine (new-session a)) (theirs (open-session b (session-id mine))) (heard (recorder mine)))
        (say mine "before")
        (kill-relay a)
        (dotimes (nth 10) (say theirs (format nil "missed ~D" nth)))
        (name-session theirs "renamed")
        (eventually (= 11 (length (texts mine))))
        (eventually (equal (session-name mine) "renamed"))
        ;; Listeners have a thread of their own, so what is here may not be told yet; the renaming is told last.
        (eventually (= 1 (count :updated (funcall heard) :key #'first)))
        (check (equal (heard-texts heard) (loop for nth below 10 collect (format nil "missed ~D" nth))))))))

(deftest a-listener-that-asks-after-a-crash
    "A listener that hears what was missed may ask at once: it does not hold up the connection that is coming back."
  (with-client (a)
    (with-client (b)
      (let* ((mine (new-session a)) (theirs (open-session b (session-id mine))) (*request-timeout* 20))
        (add-listener mine (lambda (kind change session)
                             (when (and (eq kind :appended) (equal (ref change "messages" 0 "role") "user"))
                               (say session "heard" :role :assistant))))
        (kill-relay a)
        (say theirs "missed")
        (eventually (equal (texts theirs) '("missed" "heard")))))))

(deftest a-reply-over-a-crash
    "A reply goes on after the daemon was killed in the middle of it, and holds every piece once."
  (with-client (client)
    (let ((session (new-session client)))
      (with-reply (out session)
        (dotimes (nth 10)
          (out (format nil "~D " nth))
          (when (= nth 4) (kill-daemon client))))
      (check (equal (on-disk client (session-id session)) '("0 1 2 3 4 5 6 7 8 9 ")))
      (eventually (equal (ref (session-messages session) 0 "status") "done"))
      (check (equal (texts session) '("0 1 2 3 4 5 6 7 8 9 "))))))

(deftest many-threads
    "Eight threads that talk through one client: all is there, once, under seqs of its own."
  (with-client (client)
    (let* ((session (new-session client))
           (threads (loop for who below 8
                          collect (let ((who who))
                                    (bt:make-thread (lambda ()
                                                      (dotimes (nth 20) (say session (format nil "~D.~D" who nth)))))))))
      (mapc #'bt:join-thread threads)
      (check (= 160 (length (session-messages session)) (length (on-disk client (session-id session)))))
      (check (equal (texts session) (on-disk client (session-id session))))
      (check (= 160 (length (remove-duplicates (texts session) :test #'equal)))))))

(deftest everything-else
    "Name, tags, archive, notes, state, fork and undo arrive, here and at the others."
  (with-client (a)
    (with-client (b)
      (let* ((mine (new-session a)) (theirs (open-session b (session-id mine))))
        (say mine "one") (say mine "two")
        (name-session mine "名") (tag-session mine "x" "y") (archive-session mine)
        (add-note mine "H" "猫" :thread "t")
        (set-state mine "panel" (obj :open t) "gone" 1)
        (set-state mine "gone" :null)
        (dolist (session (list mine theirs))
          (eventually (and (equal (session-name session) "名") (eql 1 (hash-table-count (session-state session)))))
          (check (equalp (ref (session-info session) "tags") #("x" "y")))
          (check (eq (ref (session-info session) "archived") t))
          (check (equal (ref (first (session-notes session)) "content") "猫")))
        (let ((fork (fork-session mine :name "other way")))
          (check (equal (texts fork) '("one" "two")))
          (check (equal (ref (session-info fork) "parent" "sessionId") (session-id mine))))
        (check (= 1 (truncate-session mine (ref (session-messages mine) 0 "seq"))))
        (check (equal (texts mine) '("one")))
        (eventually (equal (texts theirs) '("one")))
        (reset-session mine)
        (eventually (and (null (texts theirs)) (null (texts mine))))))))

(deftest found-again
    "Japanese words are found, and sessions are listed by a part of their name."
  (with-client (client)
    (say (new-session client :name "夏の日記") "猫を撮りました")
    (say (new-session client :name "other") "a dog")
    (multiple-value-bind (hits total) (search-sessions client "猫")
      (check (= 1 total))
      (check (equal (ref (first hits) "name") "夏の日記")))
    (check (equal (mapcar (lambda (info) (ref info "name")) (list-sessions client :name "日記")) '("夏の日記")))))

(deftest what-goes-on
    "A list says which sessions wait, and what for."
  (check (equal (sessiond::doing nil) nil))
  (check (equal (sessiond::doing (obj :state "working")) "works"))
  (check (equal (sessiond::doing (obj :state "waiting" :waiting-for "permission")) "waits: permission")))

(deftest a-long-session
    "A session of 20,000 messages opens with its newest ones, and the others come on demand."
  (with-client (client)
    (let ((id (session-id (new-session client :session-id "long"))))
      (dotimes (part 4)
        (call client "session/append"
              (obj :session-id id
                   :messages (loop for nth from (* part 5000) repeat 5000
                                   collect (obj :role "user" :content (princ-to-string nth)))))))
    (with-client (reader)
      (let ((session (open-session reader "long" :last 50)))
        (check (= 50 (length (session-messages session))))
        (check (equal (text-of (ref (session-messages session) 49)) "19999"))
        (check (= 100 (load-older session 100)))
        (check (equal (text-of (ref (session-messages session) 0)) "19850"))))))

(deftest what-goes-wrong
    "Errors have the daemon's kind; no program, no daemon and a session that is gone are told as what they are."
  (with-client (client)
    (check-error "sessionNotFound" (open-session client "nothing"))
    (check-error "invalidParams" (new-session client :session-id "../x"))
    (let ((session (new-session client)))
      (check-error "conflict" (call client "session/append"
                                    (obj :session-id (session-id session) :expected-seq 9
                                         :messages (list (obj :role "user" :content "x")))))
      (with-client (other)
        (let ((heard (recorder session)))
          (say session "x")
          (call other "session/delete" (obj :session-id (session-id session)))
          (eventually (find :deleted (funcall heard) :key #'first))
          (check-error "sessionNotFound" (say session "nobody keeps this"))))))
  (let ((*program* "/nowhere/sessiond"))
    (check-error "unreachable" (connect)))
  (sessiond "stop")
  (ensure-directories-exist (home-file "config" ""))
  (with-open-file (out (home-file "config" "config.toml") :direction :output)
    (write-line "[nonsense]" out))
  (handler-case (progn (connect) (error "it should not connect"))
    (unreachable (problem) (check (search "nonsense" (princ-to-string problem))))))

(deftest auto-save
    "The thread brings the file up to date by itself, and ends at once when it is told to."
  (with-open-file (out (progn (ensure-directories-exist (home-file "config" "")) (home-file "config" "config.toml"))
                       :direction :output)
    (format out "[autosave]~%interval_s = 0~%idle_s = 0~%"))
  (with-client (client)
    (let* ((session (new-session client))
           (path (ref (session-info session) "path"))
           (auto-save (start-auto-save session :interval 1/10))
           (slow (start-auto-save session :interval 1000)))
      (say session "saved by itself")
      (eventually (and (probe-file path) (search "saved by itself" (uiop:read-file-string path))))
      (stop-auto-save auto-save)
      (say session "saved at the end")
      (let ((begun (get-internal-real-time)))
        (stop-auto-save slow)
        (check (< (- (get-internal-real-time) begun) (* 10 internal-time-units-per-second))))
      (check (not (auto-save-running-p auto-save)))
      (check (not (auto-save-running-p slow)))
      (check (search "saved at the end" (uiop:read-file-string path))))))

;;; Drafts

(deftest drafts
    "What was typed is with the daemon soon, at most once a second however often it changes, and gone when it was sent."
  (with-client (a)
    (with-client (b :name "other")
      (let* ((mine (new-session a)) (theirs (open-session b (session-id mine))) (heard (recorder theirs))
             (begun (get-internal-real-time)))
        (flet ((stored () (ref (session-state theirs) "draft:lisp"))
               (times () (count :state (funcall heard) :key #'first)))
          (check (equal (draft mine) ""))
          (dotimes (nth 300)
            (keep-draft mine (format nil "書きかけ ~D" nth))
            (sleep 0.005))
          (check (equal (draft mine) "書きかけ 299"))
          (eventually (equal (stored) "書きかけ 299"))
          (check (<= 1 (times) (1+ (ceiling (- (get-internal-real-time) begun) internal-time-units-per-second))))
          ;; Another client's own draft is another key.
          (check (equal (draft theirs) ""))
          (keep-draft mine "")
          (eventually (null (stored))))))))

(deftest drafts-at-the-end
    "Leaving keeps what was typed last; the next client of that name has it."
  (let ((id nil))
    (with-client (client)
      (let ((session (new-session client)))
        (setf id (session-id session))
        (keep-draft session "first")
        (keep-draft session "typed last 🚀")))
    (with-client (client)
      (let ((session (open-session client id)))
        (check (equal (draft session) "typed last 🚀"))
        (keep-draft session "and one")
        (close-session session)
        (check (equal (ref (call client "state/get" (obj :session-id id)) "values" "draft:lisp") "and one"))))))

;;; Daemons that only a broken machine has

(defmacro with-fake-daemon ((answers) &body body)
  "ANSWERS as tests/clients/fake_daemon.py takes them."
  `(let ((*program* (fake-program ,answers)))
     ,@body))

(defun fake-program (answers)
  (let ((path (home-file "fake"))
        (quoted (sessiond::encode answers)))
    (with-open-file (out (home-file "answers") :direction :output :if-exists :supersede
                                               :element-type '(unsigned-byte 8))
      (write-sequence quoted out))
    (with-open-file (out path :direction :output :if-exists :supersede)
      (format out "#!/bin/sh~%exec ~A \"$(cat '~A')\"~%" (uiop:getenv "SESSIOND_FAKE") (home-file "answers")))
    (sb-posix:chmod path #o755)
    path))

(defun failing (kind message)
  (obj :error (obj :code -31005 :message message :data (obj :kind kind :hint "look at the disk"))))

(defun fake-answers (&rest more)
  (let ((info (obj :session-id "x" :name "x" :message-count 0 :seq 0 :tags #())))
    (apply #'obj "daemon/hello" (obj :result (obj :protocol-version 1))
           "session/new" (obj :result (obj :session info))
           "session/open" (obj :result (obj :session info :messages #() :notes #() :state (obj)))
           "state/set" (obj :result (obj :seq 1))
           more)))

(deftest an-older-daemon
    "A daemon of another protocol, or one that wants a token, is told as what it is."
  (flet ((told (&rest answers)
           (with-fake-daemon ((apply #'obj answers))
             (handler-case (progn (connect) "")
               (unreachable (problem) (princ-to-string problem))))))
    (check (search "speaks protocol 0, this client 1; update sessiond"
                   (told "daemon/hello" (obj :result (obj :protocol-version 0)))))
    (check (search "a token is needed; look at the disk"
                   (told "daemon/hello" (failing "unauthorized" "a token is needed"))))))

(deftest a-read-only-disk
    "What the daemon refuses is told, and can be said again; it is in no list of what was said."
  (with-fake-daemon ((fake-answers "session/append" (failing "readOnly" "the disk is full")
                                   "state/set" (failing "readOnly" "the disk is full")))
    (let ((out (handler-bind ((warning #'muffle-warning))
                 (talk '("これは残る" "/send" "/drop" "/send" "/quit") :auto-save-interval 0))))
      (check (= 2 (count-of "the disk is full; look at the disk" out)))
      (check (= 2 (count-of "Not sent: これは残る" out)))
      (check (search "there is nothing that was not said" out))
      (check (search "[x:0]> " out)))))

(deftest a-message-whose-fate-is-unknown
    "It is sent again under the id that it had, so it is there once."
  (let ((log (home-file "log")))
    (with-fake-daemon ((fake-answers "session/append" (failing "indeterminate" "the disk failed")))
      (with-open-file (out (home-file "fake") :direction :output :if-exists :supersede)
        (format out "#!/bin/sh~%exec ~A \"$(cat '~A')\" ~A~%" (uiop:getenv "SESSIOND_FAKE") (home-file "answers") log))
      (talk '("once" "/send" "/quit") :auto-save-interval 0))
    (let ((sent (loop for line in (uiop:read-file-lines log)
                      for message = (sessiond::decode (sb-ext:string-to-octets line :external-format :utf-8))
                      when (equal (ref message "method") "session/append")
                        collect (ref message "params" "messages" 0))))
      (check (= 2 (length sent)))
      (check (equalp (first sent) (second sent))))))

(deftest a-daemon-that-does-not-answer
    "A request ends after its time, keeping a draft waits for nobody, and all is well when the daemon goes on."
  (with-client (client)
    (let* ((session (new-session client))
           (pid (ref (call client "daemon/hello") "pid")))
      (sb-posix:kill pid sb-posix:sigstop)
      (unwind-protect
           (let ((*request-timeout* 1/2))
             (keep-draft session "typed meanwhile")
             (check (equal (draft session) "typed meanwhile"))
             (check-error "timeout" (say session "too late" :id "late")))
        (sb-posix:kill pid sb-posix:sigcont))
      (say session "too late" :id "late")
      (say session "after")
      (check (equal (on-disk client (session-id session)) '("too late" "after")))
      (eventually (equal (ref (call client "state/get" (obj :session-id (session-id session))) "values" "draft:lisp")
                         "typed meanwhile")))))

(deftest a-large-message-to-a-daemon-that-stands-still
    "It ends after its time, and is there once when it is said again."
  (with-client (client)
    (let* ((session (new-session client))
           (pid (ref (call client "daemon/hello") "pid"))
           (text (make-string 400000 :initial-element #\字)))
      (sb-posix:kill pid sb-posix:sigstop)
      (unwind-protect
           (let ((*request-timeout* 1/2))
             (check-error "timeout" (say session text :id "large")))
        (sb-posix:kill pid sb-posix:sigcont))
      (say session text :id "large")
      (check (equal (on-disk client (session-id session)) (list text))))))

;;; The loop

(defun count-of (part text)
  (loop with end = 0
        for at = (search part text :start2 end)
        while at do (setf end (+ at (length part)))
        count t))

(defun talk (lines &rest arguments)
  "What START-REPL prints for these lines; the session's id as second value."
  (let* ((out (make-string-output-stream))
         (id (with-input-from-string (in (format nil "~{~A~%~}" lines))
               (apply #'start-repl :input in :output out arguments))))
    (values (get-output-stream-string out) id)))

(deftest repl-resumes
    "/quit says the id and how to come back; :session-id comes back; the end of input is /quit too."
  (multiple-value-bind (out id) (talk '("こんにちは" "/quit" "never said"))
    (check (search (format nil "(sessiond:start-repl :session-id ~S)" id) out))
    (multiple-value-bind (again same) (talk '("again") :session-id id)
      (check (equal id same))
      (check (search "1 messages" again)))
    (with-client (client)
      (check (equal (on-disk client id) '("こんにちは" "again"))))))

(deftest repl-load
    "/load saves the session that is left; one that is not there leaves all as it is."
  (multiple-value-bind (out first) (talk '("one" "/quit"))
    (declare (ignore out))
    (let ((second (nth-value 1 (talk (list "two" "/load nothing" "three" (format nil "/load ~A" first) "four")))))
      (check (equal second first))
      (with-client (client)
        (check (equal (on-disk client first) '("one" "four")))
        (let ((other (find first (list-sessions client) :key (lambda (info) (ref info "sessionId")) :test-not #'equal)))
          (check (equal (on-disk client (ref other "sessionId")) '("two" "three"))))))))

(deftest repl-reset
    "/reset saves, then empties the session under the same id."
  (let ((id (nth-value 1 (talk '("before" "/reset" "after")))))
    (with-client (client)
      (check (equal (on-disk client id) '("after")))
      (let ((gone (ref (call client "session/list" (obj :filter (obj :deleted t))) "sessions" 0 "sessionId")))
        (check (eql 0 (search (format nil "~A.was-" id) gone)))))))

(deftest repl-commands
    "/sessions, /save, /name, /search, /new, /help and a command that is none answer what they should."
  (let ((out (talk '("日本語の話" "/name 私" "/save" "/sessions" "/search 日本語" "/nope" "/new" "/help" "//slash" "/quit"))))
    (dolist (expected '("is \"私\" now" "Saved /" "1 messages" "1 found" "there is no command /nope" "/load ID" "0 messages"))
      (check (search expected out)))))

(deftest repl-changes-the-session
    "/tag, /archive, /fork and /older do what they say; the prompt has name and count."
  (let ((id nil))
    (multiple-value-bind (out last)
        (talk '("one" "/name 計画" "/tag a b" "/tag -a" "/tag" "/archive" "/archive off" "/fork other" "two" "/older" "/quit"))
      (setf id last)
      (dolist (expected '("Tags: a b" "Tags: b" "is archived now" "is listed now" "\"other\", 1 messages" "[計画:1]> "
                          "[other:2]> " "This is the beginning"))
        (check (search expected out))))
    (with-client (client)
      (let ((sessions (list-sessions client)))
        (check (equal (sort (mapcar (lambda (info) (ref info "name")) sessions) #'string<) '("other" "計画")))
        (check (equalp (ref (find "計画" sessions :key (lambda (info) (ref info "name")) :test #'equal) "tags") #("b"))))
      (check (equal (on-disk client id) '("one" "two"))))))

(deftest repl-answers-an-agent
    "/answer shows what is asked, and answers with a choice or a text; the first answer counts."
  (with-client (client)
    (let ((session (new-session client :name "asked")))
      (flet ((ask-in-a-thread (&rest question)
               (let ((answered nil))
                 (bt:make-thread (lambda ()
                                   (with-client (agent)
                                     (setf answered (call agent "session/ask"
                                                          (apply #'obj :session-id (session-id session) question)
                                                          60)))))
                 (eventually (asked-sessions client))
                 (lambda () answered))))
        (let ((answered (ask-in-a-thread :text "Run make?"
                                         :choices (vector (obj :id "y" :label "Allow it") (obj :id "n" :label "Deny it")))))
          (let ((out (talk '("/answer" "/answer maybe" "/answer deny it" "/answer" "/quit"))))
            (dolist (expected '(": Run make?  y (Allow it)  n (Deny it)" "\"maybe\" cannot be chosen" "y, n" "Answered"
                                "Nothing is asked in any session"))
              (check (search expected out))))
          (eventually (funcall answered))
          (check (equal (ref (funcall answered) "choice") "n")))
        (let* ((answered (ask-in-a-thread :text "Which port?"))
               (info (first (asked-sessions client))))
          (check (answer-agent client info "8080"))
          (check (not (answer-agent client info "8081")))
          (eventually (funcall answered))
          (check (equal (ref (funcall answered) "text") "8080")))))))

(deftest repl-shows-the-newest
    "A session that is entered shows its newest messages, /older the ones before, each once, from beyond what is loaded too."
  (let ((id nil))
    (with-client (client)
      (let ((session (new-session client)))
        (setf id (session-id session))
        (dotimes (part 3)
          (append-messages session (loop for nth from (* part 100) repeat 100
                                         collect (obj :role "user" :content (format nil "<~D>" nth)))))))
    (let* ((out (talk '("/older 200" "/older 30" "/older 100" "/older" "/quit") :session-id id))
           (shown (loop with end = 0
                        for at = (search "user: <" out :start2 end)
                        while at
                        collect (multiple-value-bind (number next) (parse-integer out :start (+ at 7) :junk-allowed t)
                                  (setf end next)
                                  number))))
      (check (equal shown (append (loop for nth from 280 below 300 collect nth) (loop for nth from 80 below 280 collect nth)
                                  (loop for nth from 50 below 80 collect nth) (loop for nth below 50 collect nth))))
      (check (search "This is the beginning" out)))))

(deftest repl-more-lines
    "A backslash at the end goes on in the next line; what was begun and not sent is offered the next time."
  (let ((id (nth-value 1 (talk '("one\\" "two" "下書き\\")))))
    (with-client (client)
      (check (equal (on-disk client id) (list (format nil "one~%two")))))
    (let ((again (talk '("/send" "/quit") :session-id id)))
      (check (search "Not sent: 下書き" again)))
    (with-client (client)
      (check (equal (on-disk client id) (list (format nil "one~%two") "下書き")))
      (check (null (ref (call client "state/get" (obj :session-id id)) "values" "draft:lisp"))))))

(deftest repl-deleted
    "After somebody deleted the session, what is typed stays, /new leaves it, and /send says it there; /quit ends well."
  (with-client (client)
    (let* ((out (make-string-output-stream))
           (repl (make-repl :output out))
           (id (session-id (repl-session repl))))
      (handle-input repl "before")
      (call client "session/delete" (obj :session-id id))
      (check-error "sessionNotFound" (handle-input repl "残して"))
      (handle-input repl "/new second")
      (handle-input repl "/send")
      (check (equal (on-disk client (session-id (repl-session repl))) '("残して")))
      (call client "session/delete" (obj :session-id (session-id (repl-session repl))))
      (check (handle-input repl "/quit"))
      (close-repl repl)
      (check (search "Not sent: 残して" (get-output-stream-string out))))))

(deftest repl-replies
    "What the reply function writes is the assistant's message, shown and kept; a fault of its does not end the talk."
  (let* ((reply (lambda (session out)
                  (declare (ignore out))
                  (let ((said (text-of (ref (session-messages session) (- (length (session-messages session)) 2)))))
                    (if (equal said "fail")
                        (error 'sessiond-error :message "no tea")
                        (format nil "you said ~A" said)))))
         (id nil))
    (multiple-value-bind (out same) (talk '("猫" "fail" "犬") :reply reply)
      (setf id same)
      (check (search "you said 猫" out))
      (check (search "no tea" out)))
    (with-client (client)
      (check (equal (on-disk client id) '("猫" "you said 猫" "fail" "" "犬" "you said 犬"))))))

(deftest repl-hears
    "What others say in the session is printed, without characters that a terminal would obey."
  (with-client (client)
    (let* ((out (make-string-output-stream))
           (repl (make-repl :output out))
           (seen (make-string-output-stream)))
      (flet ((seen () (write-string (get-output-stream-string out) seen)
               (let ((text (get-output-stream-string seen))) (write-string text seen) text)))
        (say (open-session client (session-id (repl-session repl))) (format nil "evil ~C[2J text" (code-char 27)))
        (eventually (search "user: evil [2J text" (seen)))
        (check (handle-input repl "/quit"))
        (close-repl repl)))))

(deftest hubs-in-words
    "Shared, waiting with a count, offline since a local time, with the date of another day; what is no time is left out."
  (let* ((noon (encode-universal-time 30 14 12 11 1 2026))
         (stamp (multiple-value-bind (second minute hour day month year) (decode-universal-time noon 0)
                  (format nil "~4,'0D-~2,'0D-~2,'0DT~2,'0D:~2,'0D:~2,'0D.000Z" year month day hour minute second))))
    (flet ((words (now &rest hub) (sessiond::hub-words (apply #'obj hub) now)))
      (check (equal (words noon :state "online" :pending 0) "shared"))
      (check (equal (words noon :state "online" :pending 3) "3 waiting"))
      (check (equal (words noon :state "offline" :since stamp :pending 0) "offline since 12:14"))
      (check (equal (words (+ noon 86400) :state "offline" :since stamp :pending 2)
                    "offline since 2026-01-11 12:14, 2 waiting"))
      (check (equal (words noon :state "offline" :since "x" :pending 0) "offline")))))

(deftest hubs-of-no-shared-store
    "A session that is not shared has no label, and nobody is asked for one."
  (with-client (client)
    (let ((session (new-session client)))
      (check (null (sharing-label session)))
      (check (null (hub-status session))))))
