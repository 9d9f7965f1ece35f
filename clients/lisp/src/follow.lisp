;;;; An open session, and how its copy here is kept equal to the daemon's: every change is applied once, whether it
;;;; came as a notification, as an answer, or after a reconnection.

(in-package "SESSIOND")

(defclass session ()
  ((client :initarg :client :reader session-client)
   (id :initarg :id :reader session-id)
   (info :initform (obj) :accessor session-info :documentation "SessionInfo, as newest known.")
   (messages :initform (make-array 0 :adjustable t :fill-pointer t) :accessor session-messages
             :documentation "A vector of hash tables, by seq: the newest ones, all of them if LAST was enough.")
   (notes :initform '() :accessor session-notes :documentation "Oldest first.")
   (state :initform (obj) :accessor session-state)
   (seq :initform 0 :accessor session-seq :documentation "All changes up to here are known.")
   (ahead :initform '() :accessor session-ahead :documentation "Seqs after it that are known already.")
   (own :initform (make-hash-table :test #'equal) :reader session-own :documentation "Ids of messages of ours.")
   (listeners :initform '() :accessor session-listeners)
   (draft :initform nil :accessor session-draft
          :documentation "What was typed here since it is open: a string, NIL for nothing yet. See drafts.lisp.")
   (kept-draft :initform nil :accessor session-kept-draft :documentation "What of that the daemon has or refused.")
   (lock :initform (bt:make-recursive-lock "sessiond session") :reader session-lock)
   (holding :initform 0 :accessor session-holding
            :documentation "How many answers are being worked in; meanwhile events wait.")
   (held :initform '() :accessor session-held :documentation "Those events, newest first.")))

(defmethod print-object ((session session) stream)
  (print-unreadable-object (session stream :type t)
    (format stream "~A~@[ ~S~] ~D messages" (session-id session) (session-name session)
            (or (ref (session-info session) "messageCount") 0))))

(defun session-name (session)
  (ref (session-info session) "name"))

(defmacro holding-events ((session) &body body)
  "Notifications that arrive meanwhile are applied afterwards: BODY applies an answer that precedes them."
  `(call-holding-events ,session (lambda () ,@body)))

;;; Listeners

(defun add-listener (session function)
  "FUNCTION is called with (kind change session) for every change by another client, in order. KIND is :APPENDED,
:EXTENDED, :FINISHED, :UPDATED, :NOTE, :STATE, :CLEARED, :TRUNCATED, :SAVED, :RELOADED or :DELETED; or :HUB, when
what is known of the hub of its store has changed. CHANGE is the object of the wire, SESSION holds it already. All listeners of a client are called in one thread of its own, and may
ask the daemon things. Returns FUNCTION."
  (bt:with-recursive-lock-held ((session-lock session))
    (setf (session-listeners session) (append (session-listeners session) (list function))))
  function)

(defun remove-listener (session function)
  (bt:with-recursive-lock-held ((session-lock session))
    (setf (session-listeners session) (remove function (session-listeners session)))))

(defun emit (session kind change)
  "Called with the session's lock held if the session changed, so that events have the order of the changes."
  (let ((listeners (session-listeners session)))
    (when listeners
      (do-later (session-client session)
        (lambda ()
          (dolist (listener listeners)
            (handler-case (funcall listener kind change session)
              (error (problem) (warn "sessiond: a listener of ~A failed: ~A" (session-id session) problem)))))))))

;;; Which changes are known

(defun seqs-of (change)
  (let ((messages (ref change "messages")))
    (if (plusp (length messages))
        (map 'list (lambda (message) (ref message "seq")) messages)
        (list (ref change "seq")))))

(defun new-seqs-p (session seqs)
  "Whether any of them was not known. Afterwards all are."
  (let ((new (remove-if (lambda (seq) (or (<= seq (session-seq session)) (member seq (session-ahead session)))) seqs)))
    (setf (session-ahead session) (append new (session-ahead session)))
    (jump session (session-seq session))
    (and new t)))

(defun jump (session seq)
  "Everything up to SEQ is known."
  (setf (session-seq session) (max seq (session-seq session)))
  (loop while (member (1+ (session-seq session)) (session-ahead session))
        do (incf (session-seq session)))
  (setf (session-ahead session) (delete-if (lambda (one) (<= one (session-seq session))) (session-ahead session))))

;;; Taking changes in

(defun take-own (session change)
  "Apply a change of ours, from its answer."
  (bt:with-recursive-lock-held ((session-lock session))
    (when (new-seqs-p session (seqs-of change))
      (mirror session change))))

(defun absorb (session change)
  "Apply a change from a notification or a reconnection."
  (bt:with-recursive-lock-held ((session-lock session))
    (when (new-seqs-p session (seqs-of change))
      (let ((told (as-it-is change)))
        (mirror session change)
        (unless (own-p session change)
          (emit session (intern (string-upcase (ref change "kind")) "KEYWORD") told))))))

(defun as-it-is (change)
  "A copy for the listeners: the messages grow here, and listeners may be called only then."
  (let ((copy (copy-object change)) (messages (ref change "messages")))
    (when messages (setf (gethash "messages" copy) (map 'vector #'copy-object messages)))
    copy))

(defun own-p (session change)
  (let ((id (or (ref change "messageId") (ref change "messages" 0 "id"))))
    (and id (gethash id (session-own session)))))

(defun mirror (session change)
  "Bring the copy up to date. The session's lock is held."
  (let* ((kind (ref change "kind"))
         (message (find-message session (ref change "messageId")))
         (info (session-info session)))
    (setf (gethash "seq" info) (max (session-seq session) (or (ref info "seq") 0)))
    (cond ((string= kind "appended") (map nil (lambda (one) (insert-message session one)) (ref change "messages")))
          ((string= kind "extended") (when message (extend-message message change)))
          ((string= kind "finished")
           (dolist (key '("status" "metadata" "toolCalls"))
             (when (and message (ref change key)) (setf (gethash key message) (ref change key)))))
          ((string= kind "updated") (setf (session-info session) (ref change "session")))
          ((string= kind "note")
           (setf (session-notes session) (append (session-notes session) (list (ref change "note")))))
          ((string= kind "state") (merge-state (session-state session) (ref change "values")))
          ((string= kind "cleared") (cut-messages session 0))
          ((string= kind "truncated") (cut-messages session (ref change "afterSeq"))))))

(defun find-message (session id)
  (and id (find id (session-messages session) :key (lambda (message) (ref message "id")) :test #'equal :from-end t)))

(defun insert-message (session message)
  "Insert it by its seq, almost always at the end; one that is already here remains."
  (unless (find-message session (ref message "id"))
    (let* ((messages (session-messages session))
           (at (1+ (or (position-if (lambda (one) (< (ref one "seq") (ref message "seq"))) messages :from-end t) -1))))
      (vector-push-extend message messages)
      (replace messages messages :start1 (1+ at) :start2 at :end2 (1- (length messages)))
      (setf (aref messages at) message)
      (incf (gethash "messageCount" (session-info session) 0)))))

(defun extend-message (message change)
  (let* ((content (ref message "content"))
         (text (ref change "text"))
         (known (- (length content) (or (ref change "offset") (length content)))))
    (when (and (stringp content) (<= 0 known (length text)))
      (setf (gethash "content" message) (concatenate 'string content (subseq text known))
            (gethash "status" message) "streaming"))))

(defun merge-state (state values)
  (maphash (lambda (key value)
             (if (eq value :null) (remhash key state) (setf (gethash key state) value)))
           values))

(defun cut-messages (session after-seq)
  (let ((kept (remove-if (lambda (message) (> (ref message "seq") after-seq)) (session-messages session))))
    (decf (gethash "messageCount" (session-info session) 0) (- (length (session-messages session)) (length kept)))
    (when (zerop after-seq) (setf (gethash "messageCount" (session-info session)) 0))
    (setf (session-messages session) (growable kept))))

;;; Events, held back while the preceding answer is being applied

(defun call-holding-events (session function)
  (bt:with-recursive-lock-held ((session-lock session))
    (incf (session-holding session)))
  (unwind-protect (funcall function)
    (bt:with-recursive-lock-held ((session-lock session))
      (when (zerop (decf (session-holding session)))
        (loop for (method . params) in (reverse (shiftf (session-held session) '()))
              do (take-event session method params))))))

(defun hear-session (session method params)
  (bt:with-recursive-lock-held ((session-lock session))
    (if (plusp (session-holding session))
        (push (cons method params) (session-held session))
        (take-event session method params))))

(defun take-event (session method params)
  (cond ((string= method "session/changed") (map nil (lambda (change) (absorb session change)) (ref params "changes")))
        ((string= method "session/saved") (emit session :saved params))
        ((string= method "session/deleted") (emit session :deleted params))
        ((string= method "session/reloaded")
         (emit session :reloaded params)
         (catch-up-later session))
        ((string= method "session/resync") (catch-up-later session))))

;;; Catching up

(defun catch-up-later (session)
  (let ((client (session-client session)))
    (do-later client (lambda ()
                       (holding-events (session)
                         (catch-up session (lambda (method params) (call client method params))))))))

(defun reattach (session connection)
  "Over a new connection: read what was missed. Only another loss of the connection stops this."
  (flet ((ask (method params) (send-request connection method params)))
    (handler-case (progn (holding-events (session) (catch-up session #'ask))
                         (need-hubs (session-client session) session #'ask))
      (connection-lost (problem) (error problem))
      (sessiond-error (problem)
        (if (and (string= (sessiond-error-kind problem) "sessionNotFound") (blank-p session))
            (make-again session #'ask)
            (emit session :deleted (obj :session-id (session-id session) :reason (princ-to-string problem))))))))

(defun blank-p (session)
  "It was empty: it may have been forgotten while no client had it open."
  (and (zerop (length (session-messages session))) (null (session-notes session)) (null (session-name session))))

(defun make-again (session ask)
  (let* ((id (session-id session))
         (slash (position #\/ id)))
    (funcall ask "session/new" (obj-of :session-id (subseq id (if slash (1+ slash) 0))
                                       :store (and slash (subseq id 0 slash))))))

(defun catch-up (session ask)
  "Open it from the last known seq, and apply what happened meanwhile."
  (let* ((since (session-seq session))
         (opened (funcall ask "session/open" (obj :session-id (session-id session) :since since)))
         (info (ref opened "session"))
         (changes (ref opened "changes")))
    (if (and changes (not (eq (ref opened "hasMore") t)))
        (map nil (lambda (change) (absorb session change)) changes)
        (read-again session ask (if (< (ref info "seq") since) 0 (unfinished-since session))))
    (bt:with-recursive-lock-held ((session-lock session))
      (setf (session-info session) info)
      (jump session (ref info "seq")))))

(defun unfinished-since (session)
  "Every message with a greater seq may have content that is not here."
  (reduce #'min (remove "streaming" (session-messages session)
                        :key (lambda (message) (ref message "status")) :test-not #'equal)
          :key (lambda (message) (1- (ref message "seq"))) :initial-value (session-seq session)))

(defun read-again (session ask since)
  (loop
    (let* ((page (funcall ask "session/read" (obj :session-id (session-id session) :since since :limit 200)))
           (messages (ref page "messages")))
      (map nil (lambda (message) (take-again session message)) messages)
      (unless (eq (ref page "hasMore") t) (return))
      (setf since (ref messages (1- (length messages)) "seq")))))

(defun take-again (session message)
  "A message as it is now."
  (let* ((known (find-message session (ref message "id")))
         (change (obj :kind "appended" :seq (ref message "seq") :messages (vector message))))
    (cond ((null known) (absorb session change))
          ((not (equal (list (ref known "content") (ref known "status"))
                       (list (ref message "content") (ref message "status"))))
           (let ((text (subseq (ref message "content") (length (ref known "content")))))
             (maphash (lambda (key value) (setf (gethash key known) value)) message)
             (unless (own-p session change)
               (emit session :extended (obj :kind "extended" :message-id (ref message "id") :text text))
               (unless (equal (ref message "status") "streaming")
                 (emit session :finished (obj :kind "finished" :message-id (ref message "id")
                                              :status (ref message "status"))))))))))
