;;;; The operations on an open session.

(in-package "SESSIOND")

(defun fresh-id (prefix)
  "A unique id."
  (format nil "~A-~(~36R~)-~(~36R~)" prefix (get-universal-time) (random (expt 36 12) (make-random-state t))))

(defun now-cwd ()
  (namestring (uiop:getcwd)))

;;; Opening

(defun new-session (client &key session-id name model cwd tags metadata store messages)
  "Create a session; it is open afterwards. The daemon makes the SESSION-ID if it is not given."
  (let* ((params (obj-of :session-id session-id :name name :model model :cwd (or cwd (now-cwd)) :tags tags
                         :metadata metadata :store store :messages messages))
         (info (ref (call client "session/new" params) "session")))
    ;; Opened again: otherwise other clients' changes between the answer and now would be missing.
    (open-session client (ref info "sessionId"))))

(defun open-session (client id &key (last 200))
  "The session of that id with its newest LAST messages; LOAD-OLDER brings more. Its changes go to its listeners."
  (enlist client id (lambda (session)
                      (take-opened session (call client "session/open" (obj :session-id id :last last)))
                      (need-hubs client session (lambda (method params) (call client method params))))))

(defun enlist (client id open)
  "A session whose events wait until OPEN has filled it. One that is already open remains the same object."
  (let* ((fresh (make-instance 'session :client client :id id))
         (session (bt:with-lock-held ((client-lock client))
                    (or (gethash id (client-sessions client))
                        (setf (gethash id (client-sessions client)) fresh)))))
    (when (eq session fresh)
      (let ((done nil))
        (unwind-protect
             (holding-events (session)
               (funcall open session)
               (setf done t))
          (unless done
            (forget session)))))
    session))

(defun forget (session)
  (let ((client (session-client session)))
    (bt:with-lock-held ((client-lock client))
      (remhash (session-id session) (client-sessions client)))))

(defun take-opened (session opened)
  (bt:with-recursive-lock-held ((session-lock session))
    (setf (session-info session) (ref opened "session")
          (session-messages session) (growable (ref opened "messages"))
          (session-notes session) (coerce (ref opened "notes") 'list)
          (session-state session) (ref opened "state"))
    (jump session (ref opened "session" "seq"))))

(defun growable (vector)
  (make-array (length vector) :adjustable t :fill-pointer t :initial-contents vector))

(defun close-session (session)
  "Stop following it; its draft is kept. The daemon saves it if no other client has it open."
  (flush-draft session)
  (forget session)
  (ask session "session/close")
  (values))

(defun ask (session method &rest params)
  "A request about this session."
  (call (session-client session) method (apply #'obj :session-id (session-id session) params)))

(defun load-older (session &optional (count 200))
  "Load COUNT messages before the oldest one here. Returns how many came."
  (let* ((oldest (ref (session-messages session) 0 "seq"))
         (page (when oldest (ref (ask session "session/read" :before oldest :limit count) "messages"))))
    (when page
      (bt:with-recursive-lock-held ((session-lock session))
        (setf (session-messages session) (growable (concatenate 'vector page (session-messages session))))))
    (length page)))

;;; Saying

(defun append-messages (session messages)
  "All or none of them are durable when this returns. MESSAGES are objects (see OBJ); those without an id get one, so that
asking again after a lost answer adds nothing. Returns the messages as they are here, with their seqs."
  (dolist (message messages)
    (unless (ref message "id") (setf (gethash "id" message) (fresh-id "m")))
    (bt:with-recursive-lock-held ((session-lock session))
      (setf (gethash (ref message "id") (session-own session)) t)))
  (let ((answer (ask session "session/append" :messages messages)))
    (loop for message in messages
          for nth from 0
          do (setf (gethash "seq" message) (ref answer "messages" nth "seq")))
    (take-own session (obj :kind "appended" :seq (ref answer "seq") :messages (coerce messages 'vector)))
    messages))

(defun say (session text &key (role "user") id metadata tool-call-id tool-calls)
  "Append one message. It is durable when this returns the message."
  (first (append-messages session
                          (list (obj-of :id id :role (string-downcase role) :content text :metadata metadata
                                        :tool-call-id tool-call-id :tool-calls tool-calls)))))

(defun start-reply (session &key (role "assistant") (text ""))
  "A message whose text comes in pieces: see EXTEND-REPLY and FINISH-REPLY."
  (first (append-messages session (list (obj :role role :content text :status "streaming")))))

(defun extend-reply (session reply text)
  "Add TEXT to it. Durable when this returns; repeating it after a lost answer adds nothing."
  (let* ((offset (length (ref reply "content")))
         (answer (ask session "session/extend" :message-id (ref reply "id") :text text :offset offset)))
    (take-own session (obj :kind "extended" :seq (ref answer "seq") :message-id (ref reply "id")
                           :text text :offset offset))
    reply))

(defun finish-reply (session reply &key (status "done") metadata tool-calls)
  "STATUS is done, interrupted or error."
  (let* ((status (string-downcase status))
         (answer (call (session-client session) "session/finish"
                       (obj-of :session-id (session-id session) :message-id (ref reply "id") :status status
                               :metadata metadata :tool-calls tool-calls))))
    (take-own session (obj-of :kind "finished" :seq (ref answer "seq") :message-id (ref reply "id") :status status
                              :metadata metadata :tool-calls tool-calls))
    reply))

(defmacro with-reply ((write session &rest arguments) &body body)
  "Inside BODY the local function WRITE adds text to a new reply. It is finished as done at the end, as error where an
error comes out of BODY, as interrupted where BODY is left in another way. Returns the reply."
  (let ((reply (gensym "REPLY")) (the-session (gensym "SESSION")) (status (gensym "STATUS")))
    `(let* ((,the-session ,session)
            (,reply (start-reply ,the-session ,@arguments))
            (,status :interrupted))
       (flet ((,write (text) (extend-reply ,the-session ,reply text)))
         (declare (ignorable #',write))
         (unwind-protect
              (handler-bind ((error (lambda (condition) (declare (ignore condition)) (setf ,status :error))))
                ,@body
                (setf ,status :done))
           (finish-reply ,the-session ,reply :status ,status)))
       ,reply)))

;;; Changing it

(defun take-info (session answer)
  (let ((info (ref answer "session")))
    (take-own session (obj :kind "updated" :seq (ref info "seq") :session info))
    session))

(defun name-session (session name)
  (take-info session (ask session "session/update" :name (or name :null))))

(defun tag-session (session &rest tags)
  "Replace its tags."
  (take-info session (ask session "session/update" :tags tags)))

(defun archive-session (session &optional (archived t))
  (take-info session (ask session "session/update" :archived (if archived t :false))))

(defun save-session (session)
  "The session file is current when this returns. Returns its path and size in octets; NIL if there is nothing to save."
  (let ((saved (ref (ask session "session/save") "saved" 0)))
    (when saved
      (values (ref saved "path") (ref saved "bytes")))))

(defun reset-session (session)
  "Save, then empty it under the same id. The old content is in the daemon's trash."
  (let ((info (ref (ask session "session/clear") "session")))
    (take-own session (obj :kind "cleared" :seq (ref info "seq")))
    (setf (session-info session) info)
    session))

(defun truncate-session (session after-seq)
  "Remove the messages after that seq. Returns how many."
  (let* ((answer (ask session "session/truncate" :after-seq after-seq)))
    (take-own session (obj :kind "truncated" :seq (ref answer "session" "seq") :after-seq after-seq))
    (setf (session-info session) (ref answer "session"))
    (ref answer "removed")))

(defun fork-session (session &key at-seq name)
  "A copy of it, or of its beginning, as an open session."
  (let ((made (call (session-client session) "session/fork"
                    (obj-of :session-id (session-id session) :at-seq at-seq :name name))))
    (open-session (session-client session) (ref made "session" "sessionId"))))

(defun add-note (session heading content &key thread tick)
  (let ((note (ref (call (session-client session) "note/append"
                         (obj-of :session-id (session-id session) :heading heading :content content :id (fresh-id "n")
                                 :thread thread :tick tick))
                   "note")))
    (take-own session (obj :kind "note" :seq (ref note "seq") :note note))
    note))

(defun set-state (session &rest values)
  "Keys and values; :NULL removes a key."
  (let* ((table (apply #'obj values))
         (answer (ask session "state/set" :values table)))
    (take-own session (obj :kind "state" :seq (ref answer "seq") :values table))
    session))

;;; Finding

(defun session-label (session)
  "[NAME:COUNT] on one line, as a status line or a prompt has it; the end of the id where there is no name."
  (let ((name (remove-if (lambda (char) (or (< (char-code char) 32) (<= 127 (char-code char) 159)))
                         (or (session-name session) (session-id session)))))
    (format nil "[~A:~D]" (subseq name 0 (min 40 (length name)))
            (or (ref (session-info session) "messageCount") 0))))

(defun list-sessions (client &key (limit 50) name tags archived activity)
  "SessionInfos, the newest first. ACTIVITY: \"working\" or \"waiting\"."
  (coerce (ref (call client "session/list"
                     (obj :limit limit
                          :filter (obj-of :name name :tags tags :archived archived :activity activity)))
               "sessions")
          'list))

(defun asked-sessions (client)
  "SessionInfos of the sessions in which an agent asks something."
  (remove-if-not (lambda (info) (ref info "activity" "question"))
                 (list-sessions client :limit 1000 :activity "waiting")))

(defun answer-agent (client info answer)
  "Answer what is asked in the session of INFO with the id or the label of a choice, or with any text if there are no choices.

True if the answer counts: the first one does, wherever it is given. SESSIOND-ERROR if it cannot be chosen."
  (let* ((question (ref info "activity" "question"))
         (choices (coerce (or (ref question "choices") #()) 'list))
         (choice (some (lambda (key) (find answer choices :key (lambda (one) (ref one key)) :test #'string-equal))
                       '("id" "label"))))
    (when (and choices (null choice))
      (error 'sessiond-error :kind "invalidParams" :message (format nil "~S cannot be chosen" answer)
                             :hint (format nil "~{~A~^, ~}" (mapcar (lambda (one) (ref one "id")) choices))))
    (eq t (ref (call client "session/answer"
                     (obj-of :session-id (ref info "sessionId") :question-id (ref question "id")
                             :choice (and choice (ref choice "id")) :text (if choice nil answer)))
               "accepted"))))

(defun search-sessions (client query &key (limit 20) (mode "text"))
  "Hits, the best first; the second value is the total."
  (let ((found (call client "session/search" (obj :query query :limit limit :mode (string-downcase mode)))))
    (values (coerce (ref found "hits") 'list) (ref found "total"))))
