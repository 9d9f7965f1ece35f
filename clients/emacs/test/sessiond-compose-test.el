;;; sessiond-compose-test.el --- What came back below the line  -*- lexical-binding: t; -*-

;;; Code:

(require 'sessiond-test-support)

(defmacro sessiond-compose-test--unanswered (texts &rest body)
  "Send TEXTS, which arrive without an answer, and run BODY when they came back.
The daemon cannot be reached in BODY."
  (declare (indent 1))
  `(let ((sessiond-server '("sh" "-c" "echo 'sessiond: the disk is gone' >&2; exit 69"))
         (sessiond--retry-delays [0 1000]))
     (cl-letf* ((send (symbol-function 'sessiond--send))
                ((symbol-function 'sessiond--send)
                 (lambda (method params _on-result _on-error &optional _patience)
                   (funcall send method params #'ignore #'ignore))))
       (dolist (text ,texts)
         (sessiond-test-type text)
         (sessiond-send)))
     (sessiond-test-until (equal (sessiond-test-said sessiond-session-id) ,texts))
     (delete-process sessiond--process)
     (sessiond-test-until (equal (sessiond-compose-input) (string-join ,texts "\n\n")))
     (should-not (sessiond-pending-p))
     ,@body))

(defun sessiond-compose-test--send (text)
  "Send TEXT, and wait until it is answered."
  (sessiond-test-type text)
  (sessiond-send)
  (sessiond-test-until (not (sessiond-pending-p))))

(sessiond-test sessiond-compose-arrived-after-all
    "What came back and is seen in the session leaves the input; what was typed after it stays."
  (let ((id (sessiond-test-new)))
    (sessiond-test-open id)
    (sessiond-compose-test--unanswered '("first" "second")
      (sessiond-test-type "\n\nthird"))
    (sessiond-connect)
    (sessiond-test-until (equal (sessiond-compose-input) "third"))
    (sessiond-compose-test--send "")
    (should (equal (sessiond-test-said id) '("first" "second" "third")))))

(sessiond-test sessiond-compose-same-words-later
    "The words of a message that came back and was there after all can be said once more."
  (let ((id (sessiond-test-new)))
    (sessiond-test-open id)
    (sessiond-compose-test--unanswered '("yes")
      (delete-region sessiond-compose--input (point-max)))
    (sessiond-connect)
    (sessiond-test-until (= (sessiond-test-times "yes") 1))
    (sessiond-compose-test--send "yes")
    (should (equal (sessiond-test-said id) '("yes" "yes")))))

(sessiond-test sessiond-compose-sent-again
    "Messages that came back and are sent again before they are seen are there once each."
  (let ((id (sessiond-test-new)))
    (sessiond-test-open id)
    (sessiond-compose-test--unanswered '("first" "second"))
    (cl-letf (((symbol-function 'sessiond-compose-arrived) #'ignore))
      (sessiond-connect)
      (sessiond-test-until (= (sessiond-test-times "second") 2)))
    (sessiond-compose-test--send "\n\nthird")
    (should (equal (sessiond-compose-input) ""))
    (should (= (sessiond-test-times "second") 1))
    (should (equal (sessiond-test-said id) '("first" "second" "third")))
    (sessiond-compose-test--send "first")
    (should (equal (last (sessiond-test-said id) 2) '("third" "first")))))

(defun sessiond-compose-test--draft (id)
  "The draft in the state of session ID."
  (plist-get (plist-get (sessiond-call 'state/get (list :sessionId id)) :values)
             :draft:emacs))

(sessiond-test sessiond-compose-typed-before-it-is-open
    "An earlier draft comes back before what was typed before the session was open."
  (let ((id (sessiond-test-new)))
    (sessiond-call 'state/set (list :sessionId id :values '(:draft:emacs "yesterday")))
    (set-buffer (sessiond-chat-open id))
    (should-not sessiond-compose--opened)
    (sessiond-test-type "today")
    (sessiond-test-until sessiond-compose--opened)
    (should (equal (sessiond-compose-input) "yesterday\n\ntoday"))
    (should (eobp))))

(sessiond-test sessiond-compose-left-after-sending
    "What is sent when the buffer goes away is not a draft as well; what was typed after it is."
  (let ((id (sessiond-test-new)))
    (dolist (typed '("" "next"))
      (sessiond-test-open id)
      (sessiond-test-type "sent")
      (sessiond-send)
      (sessiond-test-type typed)
      (kill-buffer)
      (sessiond-test-until (not (sessiond-pending-p)))
      (should (equal (sessiond-compose-test--draft id) (and (equal typed "next") typed))))
    (should (equal (sessiond-test-said id) '("sent" "sent")))))

(sessiond-test sessiond-compose-two-emacsen
    "What another Emacs keeps as a draft stays, and so does ours."
  (let ((id (sessiond-test-new)))
    (sessiond-test-open id)
    (sessiond-test-with-peer peer
      (cl-flet ((theirs (draft)
                  (sessiond-test-ask peer 'state/set :sessionId id
                                     :values (list :draft:emacs draft))))
        (theirs "a long thought")
        (sessiond-test-until (equal sessiond-compose--others "a long thought"))
        (sessiond-test-type "hi")
        (sessiond-test-until (equal (sessiond-compose-test--draft id) "a long thought\n\nhi"))
        (theirs "hi\n\na longer thought")
        (sessiond-test-until (equal sessiond-compose--others "a longer thought"))
        (sessiond-compose-test--send "")
        (sessiond-test-until (equal (sessiond-compose-test--draft id) "a longer thought"))
        (theirs nil)
        (sessiond-test-until (equal sessiond-compose--others ""))))))

(provide 'sessiond-compose-test)
;;; sessiond-compose-test.el ends here
