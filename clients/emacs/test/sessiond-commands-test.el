;;; sessiond-commands-test.el --- Commands on sessions, and searching  -*- lexical-binding: t; -*-

;;; Code:

(require 'outline)
(require 'sessiond-test-support)
(require 'sessiond-search)
(require 'imenu)

(defun sessiond-commands-test-info (id)
  "What the daemon says of session ID."
  (plist-get (sessiond-call 'session/open (list :sessionId id :last 0)) :session))

(defun sessiond-commands-test-delete-all ()
  "Delete all sessions."
  (dolist (info (sessiond-list))
    (sessiond-call 'session/delete (list :sessionId (plist-get info :sessionId))))
  (sessiond-test-until (null (sessiond-list))))

(defmacro sessiond-commands-test-choosing (offered choice &rest body)
  "Run BODY with completion that chooses CHOICE, an expression.
OFFERED is bound to what was offered, with annotations."
  (declare (indent 2))
  `(let ((,offered nil))
     (ignore ,offered)                  ; not every test looks at it
     (cl-letf (((symbol-function 'completing-read)
                (lambda (_prompt table &rest _)
                  (let* ((metadata (completion-metadata "" table nil))
                         (annotate (completion-metadata-get
                                    metadata 'annotation-function)))
                    (setq ,offered
                          (mapcar (lambda (name) (cons name (funcall annotate name)))
                                  (all-completions "" table)))
                    ,choice))))
       ,@body)))

(ert-deftest sessiond-commands-doing ()
  "What goes on in a session is beside it in completion."
  (dolist (case '((nil . nil)
                  ((:state "working") . "works")
                  ((:state "waiting") . "waits")
                  ((:state "waiting" :waitingFor "permission") . "waits: permission")))
    (should (equal (sessiond--doing (car case)) (cdr case)))
    (when (cdr case)
      (should (string-search (cdr case)
                             (sessiond--annotation
                              (list :updatedAt "2026-01-11T14:30:22.000Z" :messageCount 1
                                    :activity (car case))))))))

(ert-deftest sessiond-commands-short-ids ()
  "A long id is cut where no other begins so; one that sessiond makes is whole."
  (let* ((ids '("session-20260111-143022-12"
                "imported-11111111-2222-3333-4444-5555aaaa"
                "imported-11111111-2222-3333-4444-5555bbbb"
                "imported-99999999-2222-3333-4444-555555555555"))
         (short (sessiond--short-ids
                 (mapcar (lambda (id) (list :sessionId id)) ids))))
    (should (equal (mapcar (lambda (id) (gethash id short)) ids)
                   '("session-20260111-143022-12"
                     "imported-11111111-2222-3333-4444-5555a"
                     "imported-11111111-2222-3333-4444-5555b"
                     "imported-99999999-2222-333")))))

(sessiond-test sessiond-commands-switch
    "Switching offers all sessions, the newest first, with time, count and tags, and saves the one before."
  (sessiond-commands-test-delete-all)
  (let* ((one (sessiond-test-new :name "alpha" :tags ["x" "日本"]
                                 :messages [(:role "user" :content "a")]))
         (two (sessiond-test-new :name "same"))
         (three (sessiond-test-new :name "same"))
         (four (sessiond-test-new :name nil :messages [(:role "user" :content "b")])))
    (sessiond-test-open four)
    (sessiond-append one '((:role "assistant" :content "b")))
    (sessiond-test-until (not (sessiond-pending-p)))
    (sessiond-test-until (equal (plist-get (car (sessiond-list)) :sessionId) one))
    (sessiond-commands-test-choosing offered "alpha"
      (call-interactively #'sessiond-switch)
      (should (equal (length offered) 4))
      (should (equal (caar offered) "alpha"))
      (should (string-match-p "20[0-9][0-9]-.* 2  #x  #日本\\'" (cdar offered)))
      (dolist (name (list (format "same <%s>" two) (format "same <%s>" three)
                          (string-remove-prefix "session-" four)))
        (should (assoc name offered))))
    (sessiond-test-until sessiond-compose--opened)
    (should (equal sessiond-session-id one))
    (should (= (sessiond-test-times "◆ ") 2))
    (sessiond-test-until
      (cl-find-if (lambda (info) (and (equal (plist-get info :sessionId) four)
                                      (eq (plist-get info :dirty) :json-false)))
                  (sessiond-list)))
    ;; The same again is the same buffer.
    (let ((buffer (current-buffer)))
      (sessiond-switch one)
      (should (eq (current-buffer) buffer)))))

(sessiond-test sessiond-commands-nothing-to-choose
    "Without sessions, or without a choice, there is a clear word."
  (sessiond-commands-test-delete-all)
  (should-error (call-interactively #'sessiond-switch) :type 'user-error)
  (sessiond-test-new :messages [(:role "user" :content "a")])
  (sessiond-test-until (sessiond-list))
  (sessiond-commands-test-choosing offered ""
    (should-error (call-interactively #'sessiond-switch) :type 'user-error)))

(sessiond-test sessiond-commands-name-tag-archive-save
    "Name, tags, archive and save reach the daemon, from the buffer of a session."
  (let ((id (sessiond-test-new :name "old" :messages [(:role "user" :content "a")])))
    (sessiond-test-open id)
    (cl-letf (((symbol-function 'read-string)
               (lambda (_prompt initial &rest _) (concat initial " & new"))))
      (call-interactively #'sessiond-name))
    (sessiond-test-until (equal (buffer-name) "*sessiond old & new*"))
    (cl-letf (((symbol-function 'completing-read-multiple)
               (lambda (&rest _) '("b" " 日本 " "" "b"))))
      (call-interactively #'sessiond-tag))
    (sessiond-test-until (equal (plist-get (sessiond-info id) :tags) ["b" "日本"]))
    (call-interactively #'sessiond-archive)
    (sessiond-test-until (eq (plist-get (sessiond-info id) :archived) t))
    (should-not (cl-find id (sessiond-list) :test #'equal
                         :key (lambda (info) (plist-get info :sessionId))))
    (should (cl-find id (sessiond-list '(:archived t)) :test #'equal
                     :key (lambda (info) (plist-get info :sessionId))))
    (let ((current-prefix-arg '(4)))
      (call-interactively #'sessiond-archive))
    (sessiond-test-until (eq (plist-get (sessiond-info id) :archived) :json-false))
    (call-interactively #'sessiond-save)
    (let ((path (plist-get (sessiond-info id) :path)))
      (sessiond-test-until (file-exists-p path)))
    (sessiond-name "")
    (sessiond-test-until (null (plist-get (sessiond-info id) :name)))
    (should (equal (buffer-name)
                   (format "*sessiond %s*" (string-remove-prefix "session-" id))))))

;;; What agents ask

(defun sessiond-commands-test-ask (id &rest more)
  "Ask in session ID; MORE are further params.
The value is a function that returns the answer once it is there."
  (let ((answer nil))
    (sessiond-request 'session/ask `(:sessionId ,id ,@more)
                      :on-result (lambda (result) (setq answer result)))
    (sessiond-test-until (cl-find id (sessiond-commands--asked) :test #'equal
                                  :key (lambda (info) (plist-get info :sessionId))))
    (lambda () answer)))

(defconst sessiond-commands-test-choices
  [(:id "y" :label "Allow") (:id "n" :label "Deny")])

(sessiond-test sessiond-commands-answer
    "A question is answered with a choice or a text, from the session's buffer or another."
  (should-error (call-interactively #'sessiond-answer) :type 'user-error)
  (let* ((id (sessiond-test-new :name "asked"))
         (other (sessiond-test-new :name "other"))
         (answer (sessiond-commands-test-ask id :text "Run make?" :waitingFor "permission"
                                             :choices sessiond-commands-test-choices))
         (prompts nil))
    (cl-letf (((symbol-function 'completing-read)
               (lambda (prompt table &rest _)
                 (push (cons prompt (all-completions "" table)) prompts)
                 "Deny")))
      (call-interactively #'sessiond-answer))
    (should (string-suffix-p ": Run make? " (caar prompts)))
    (should (equal (cdar prompts) '("Allow" "Deny")))
    (sessiond-test-until (equal (plist-get (funcall answer) :choice) "n"))
    (setq answer (sessiond-commands-test-ask id :text "Which port?"))
    (sessiond-commands-test-ask other :text "And which host?")
    (sessiond-test-open id)
    (cl-letf (((symbol-function 'read-string)
               (lambda (prompt &rest _)
                 (should (string-suffix-p ": Which port? " prompt))
                 "8080")))
      (call-interactively #'sessiond-answer))
    (sessiond-test-until (equal (plist-get (funcall answer) :text) "8080"))))

(sessiond-test sessiond-commands-answer-chosen
    "Elsewhere the session is chosen, and an answer that comes too late is said to be so."
  (let* ((id (sessiond-test-new :name "first"))
         (answer (sessiond-commands-test-ask id :text "One?")))
    (sessiond-commands-test-ask (sessiond-test-new :name "second") :text "Two?")
    (sessiond-commands-test-choosing offered "first"
      (cl-letf (((symbol-function 'read-string) (lambda (&rest _) "")))
        (should-error (call-interactively #'sessiond-answer) :type 'user-error))
      (should (equal (sort (mapcar #'car offered) #'string<) '("first" "second")))
      (cl-letf (((symbol-function 'read-string) (lambda (&rest _) "Yes")))
        (call-interactively #'sessiond-answer)))
    (sessiond-test-until (equal (plist-get (funcall answer) :text) "Yes"))
    (let ((said nil))
      (cl-letf (((symbol-function 'message) (lambda (format &rest _) (setq said format))))
        (sessiond-answer id "nothing" '(:text "late")))
      (should (string-search "answered before" said)))))

(sessiond-test sessiond-commands-fork
    "A fork has what stands up to point, and the first one stays as it is."
  (let ((id (sessiond-test-new :messages [(:role "user" :content "one")
                                          (:role "assistant" :content "two")
                                          (:role "user" :content "three")])))
    (sessiond-test-open id)
    (goto-char (point-min))
    (search-forward "two")
    (cl-letf (((symbol-function 'read-string) (lambda (&rest _) "Half")))
      (call-interactively #'sessiond-fork))
    (sessiond-test-until sessiond-compose--opened)
    (let ((fork sessiond-session-id))
      (should (equal (plist-get (sessiond-commands-test-info fork) :name) "Half"))
      (should-not (equal fork id))
      (should (equal (sessiond-test-said fork) '("one" "two")))
      (should (equal (plist-get (plist-get (sessiond-commands-test-info fork) :parent)
                                :sessionId)
                     id))
      (should (= (length (sessiond-test-said id)) 3)))
    (goto-char (point-max))
    (cl-letf (((symbol-function 'read-string) (lambda (&rest _) " ")))
      (call-interactively #'sessiond-fork))
    (should (equal (plist-get (sessiond-commands-test-info sessiond-session-id) :name)
                   "Half"))
    (should (equal (length (sessiond-test-said sessiond-session-id)) 2))))

(sessiond-test sessiond-commands-delete
    "Deleting asks first, and the trash has it."
  (let ((id (sessiond-test-new :messages [(:role "user" :content "x")])))
    (sessiond-test-open id)
    (cl-letf (((symbol-function 'yes-or-no-p) #'ignore))
      (should-error (call-interactively #'sessiond-delete) :type 'user-error))
    (cl-letf (((symbol-function 'yes-or-no-p) (lambda (&rest _) t)))
      (call-interactively #'sessiond-delete))
    (sessiond-test-until sessiond-compose--deleted)
    (should (plist-get (sessiond-call 'session/restore (list :sessionId id)) :session))))

(sessiond-test sessiond-commands-send-region
    "A region of any buffer can be said in a session."
  (let ((id (sessiond-test-new :name "target")))
    (with-temp-buffer
      (insert "not this\n関数 (defun x ())\nnor this")
      (goto-char (point-min))
      (forward-line)
      (sessiond-send-region (point) (line-end-position) id)
      (should-error (sessiond-send-region (point) (point) id) :type 'user-error))
    (sessiond-test-until (not (sessiond-pending-p)))
    (should (equal (sessiond-test-said id) '("関数 (defun x ())")))))

(sessiond-test sessiond-commands-index
    "Imenu and outline find every message of a chat."
  (let ((id (sessiond-test-new :messages [(:role "user" :content "first\nmore")
                                          (:role "assistant" :content "* not a heading")])))
    (sessiond-test-open id)
    (should (equal (mapcar #'car (funcall imenu-create-index-function))
                   '("user: first more" "assistant: * not a heading")))
    (should (= (how-many (concat "^\\(?:" outline-regexp "\\)") (point-min)) 2))
    (outline-minor-mode)
    (goto-char (point-min))
    (outline-hide-entry)
    (should (invisible-p (save-excursion (search-forward "first") (point))))))

(sessiond-test sessiond-commands-search
    "Searching shows hits with what was found marked, and leads to the message."
  (let ((id (sessiond-test-new
             :name "find me"
             :messages (vconcat
                        (cl-loop for n below 300
                                 collect (list :role "user" :content (format "line %d" n)))
                        [(:role "user" :content "the Zebra is here")
                         (:role "assistant" :content "東京に行く")]))))
    (sessiond-search "zebra")
    (sessiond-test-until (string-match-p "1 hit" (buffer-string)))
    ;; Point is on the first hit already.
    (should (get-text-property (point) 'sessiond-hit))
    (search-forward "the Zebra")
    (should (eq (get-text-property (1- (point)) 'face) 'match))
    (should (string-match-p "find me  user  20" (buffer-string)))
    (sessiond-search-visit)
    (sessiond-test-until (and sessiond-compose--opened (not sessiond-chat--target)))
    (should (equal (mapcar (lambda (found)
                             (buffer-substring (overlay-start found) (overlay-end found)))
                           sessiond-transcript--found)
                   '("Zebra")))
    (should (equal sessiond-session-id id))
    (should (looking-at-p ".*\nthe Zebra is here"))
    (sessiond-search "東京")
    (sessiond-test-until (string-match-p "東京に行く" (buffer-string)))
    ;; One after the other, and more of them.
    (sessiond-search "line")
    (sessiond-test-until (string-match-p "300 hits" (buffer-string)))
    (let ((results (current-buffer)))
      (should (= (how-many "^  .*line" (point-min)) 50))
      (let ((first (point)))
        (sessiond-search-more)
        (sessiond-test-until (= (how-many "^  .*line" (point-min)) 100))
        (should (= (point) first))
        (let ((inhibit-message t))
          ;; `next-error' begins with the first one, and goes on from there.
          (dolist (expected (list first (next-single-property-change first 'sessiond-hit)))
            (sessiond-search--next 1 nil)
            (should (equal sessiond-session-id id))
            (set-buffer results)
            (should (= (point) expected)))
          (sessiond-search--next 1 t)
          (set-buffer results)
          (should (= (point) first)))))
    (sessiond-search "line 1[12]$" t)
    (sessiond-test-until (string-match-p "2 hits" (buffer-string)))
    (sessiond-search "line (" t)
    (sessiond-test-until (not (string-empty-p (buffer-string))))
    (should-not (string-match-p "hits" (buffer-string)))
    (sessiond-search "nosuchword")
    (sessiond-test-until (string-match-p "0 hits" (buffer-string)))
    (should-error (sessiond-search " ") :type 'user-error)))

(provide 'sessiond-commands-test)
;;; sessiond-commands-test.el ends here
