;;; sessiond-notes-test.el --- The scratchpad  -*- lexical-binding: t; -*-

;;; Code:

(require 'sessiond-test-support)
(require 'sessiond-notes)

(sessiond-test sessiond-notes-shown-live
    "Notes are shown by heading and thread, live, those of others and our own."
  (let ((id (sessiond-test-new)))
    (sessiond-test-with-peer peer
      (sessiond-test-ask peer 'note/append :sessionId id :heading "計画" :content "one")
      (sessiond-notes id)
      (sessiond-test-until (string-match-p "\\* 計画\none\n" (buffer-string)))
      (sessiond-test-ask peer 'note/append :sessionId id :heading "Parser"
                         :content "theirs" :thread "rust")
      (sessiond-note "計画" "two" nil id)
      (sessiond-test-until (string-match-p "one\ntwo\n" (buffer-string)))
      (sessiond-test-until (string-match-p "\\* Parser  \\[rust\\]\ntheirs\n" (buffer-string)))
      (should (equal (sessiond-mode-line id) "[test:0]"))
      ;; The same buffer again, and listening ends with it.
      (let ((buffer (current-buffer)))
        (sessiond-notes id)
        (should (eq buffer (current-buffer)))
        (kill-buffer)
        (should-not (sessiond-info id))))))

(sessiond-test sessiond-notes-restored
    "The notes of a session that was deleted and restored are shown live again when asked for."
  (let ((id (sessiond-test-new)))
    (sessiond-test-with-peer peer
      (sessiond-test-ask peer 'note/append :sessionId id :heading "Plan" :content "one")
      (sessiond-notes id)
      (sessiond-test-until sessiond-notes--notes)
      (sessiond-test-ask peer 'session/delete :sessionId id)
      (sessiond-test-until (not (sessiond-attached-p id sessiond-notes--listener)))
      (sessiond-test-ask peer 'session/restore :sessionId id)
      (sessiond-notes id)
      (sessiond-test-ask peer 'note/append :sessionId id :heading "Plan" :content "two")
      (sessiond-test-until (string-match-p "one\ntwo\n" (buffer-string))))))

(sessiond-test sessiond-notes-command
    "The command offers headings and threads that are there."
  (let ((id (sessiond-test-new)))
    (sessiond-add-note id "Known" "x" :thread "t1")
    (sessiond-test-until (not (sessiond-pending-p)))
    (sessiond-notes id)
    (sessiond-test-until sessiond-notes--notes)
    (let ((offered nil)
          (current-prefix-arg '(4)))
      (cl-letf (((symbol-function 'completing-read)
                 (lambda (_prompt table &rest _) (push table offered) (car table)))
                ((symbol-function 'read-string) (lambda (&rest _) "by command")))
        (call-interactively #'sessiond-note))
      (should (equal offered '(("t1") ("Known")))))
    (sessiond-test-until (string-match-p "by command" (buffer-string)))
    (should-error (sessiond-note " " "x" nil id) :type 'user-error)))

(sessiond-test sessiond-notes-context
    "The context has messages, notes of the session and of the thread, each to its own depth."
  (let ((id (sessiond-test-new
             :messages (vconcat (cl-loop for n below 5
                                         collect (list :role "user" :tick n
                                                       :content (format "said %d" n)))))))
    (dotimes (n 4)
      (sessiond-add-note id "Global" (format "global %d" n) :tick (+ 40 n))
      (sessiond-add-note id "Mine" (format "mine %d" n) :thread "a")
      (sessiond-add-note id "Other" (format "other %d" n) :thread "b"))
    (sessiond-test-until (not (sessiond-pending-p)))
    (let ((context (sessiond-context id :thread "a" :messages 2 :global 1 :notes 3)))
      (dolist (there '("said 3" "said 4" "global 3" "mine 1" "mine 2" "mine 3"))
        (should (string-match-p there context)))
      (dolist (absent '("said 2" "global 2" "mine 0" "other"))
        (should-not (string-match-p absent context))))
    (let ((context (sessiond-context id)))
      (should (string-match-p "global 0" context))
      (should-not (string-match-p "mine\\|other" context)))
    (should (equal (sessiond-context id :messages 0 :global 0) ""))
    (should (= (sessiond-last-tick id) 43))
    (should (= (length (sessiond-notes-list id)) 12))
    (should-not (sessiond-last-tick (sessiond-test-new)))))

(provide 'sessiond-notes-test)
;;; sessiond-notes-test.el ends here
