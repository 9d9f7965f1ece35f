;;; sessiond.el --- Conversations kept by the sessiond daemon  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 the sessiond authors

;; Author: the sessiond authors
;; Version: 0.1.0
;; Package-Requires: ((emacs "28.1"))
;; Keywords: comm, tools, convenience
;; SPDX-License-Identifier: MIT

;;; Commentary:

;; `sessiond' is a daemon that keeps conversations with models: any number of
;; tools show and continue the same session at the same time, and what the
;; daemon has acknowledged survives everything.  This package is its Emacs
;; client.  People want `sessiond-switch' and `sessiond-new'
;; (sessiond-chat.el); this file has the sessions that somebody listens to, and
;; the functions that other packages build on.  The connection below it is in
;; sessiond-connection.el; sessiond-outbox.el keeps changes until they are
;; answered.
;;
;; The rules of these three files:
;;
;; 1. There is one connection, made when it is needed.  It is a
;;    `jsonrpc-process-connection' to the command in `sessiond-server'.
;; 2. `sessiond-call' waits for an answer, never longer than
;;    `sessiond-timeout', and refuses to wait inside a notification.
;;    Everything else returns at once and calls back.
;; 3. Changes that can be repeated without harm (`sessiond-append',
;;    `sessiond-extend', `sessiond-finish', `sessiond-add-note',
;;    `sessiond-set-state') are kept until they are answered.  When the
;;    connection is lost, they are sent again, in the same order.
;; 4. A listener (`sessiond-attach') hears every change of a session: those of
;;    others, as the daemon tells them, and those of this Emacs, as the daemon
;;    has acknowledged them.  It may hear a change twice and out of order by a
;;    place or two; the `:seq' and `:id' of messages and the `:offset' of
;;    extended text make that harmless.
;; 5. When the daemon or the relay dies, we reconnect automatically, and
;;    continue from the last seq that the daemon told us.  An answer to one
;;    of our own requests moves that seq only if there is nothing in between.
;;    Notifications between that request to continue and its answer are
;;    skipped: the answer contains them.
;;
;; JSON arrives as jsonrpc.el has it: objects are plists, lists are vectors,
;; null is nil and false is `:json-false'.  Params go out the same way; an
;; empty list is [].

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'subr-x)
(require 'sessiond-connection)
(require 'sessiond-hubs)
(require 'sessiond-outbox)
(require 'sessiond-text)

(defvar-local sessiond-session-id nil
  "The id of the session that the current buffer belongs to, or nil.")
(put 'sessiond-session-id 'permanent-local t)


;;; Sessions that somebody listens to

(cl-defstruct sessiond--session
  id
  info                                  ; SessionInfo as the daemon has it
  (seq 0)                               ; the newest change that we were told of
  listeners                             ; `sessiond--listener's
  reading                               ; non-nil while we read on
  (counted (make-hash-table :test #'equal))) ; messages newer than the info

(cl-defstruct sessiond--listener function last active)

(defvar sessiond--sessions (make-hash-table :test #'equal)
  "The sessions that somebody listens to, by id.")

(defun sessiond-info (id)
  "The SessionInfo of session ID as far as it is known here, or nil."
  (let ((session (gethash id sessiond--sessions)))
    (and session (sessiond--session-info session))))

(defun sessiond-attach (id function &optional last)
  "Have FUNCTION called with (EVENT DATA) for whatever happens to session ID.
Events:
`opened'      DATA is the result of session/open with the newest LAST
              messages; what was shown before is no longer true
`changed'     a list of changes, as in session/changed
`saved'       the params of session/saved
`deleted'     the session was deleted, or moved: then DATA is its id now
`failed'      an error: the session could not be opened
`lost'        the connection is gone; we connect again
`unreachable' an error: connecting again has failed; we go on trying
FUNCTION must not wait.  `sessiond-detach' ends this."
  (let ((session (or (gethash id sessiond--sessions)
                     (puthash id (make-sessiond--session :id id) sessiond--sessions)))
        (listener (make-sessiond--listener :function function :last last)))
    (push listener (sessiond--session-listeners session))
    (condition-case err
        (sessiond-connect)
      (sessiond-error
       (sessiond-detach id function)
       (signal (car err) (cdr err))))
    (when (sessiond-connected-p)
      (sessiond--open session listener))))

(defun sessiond-attached-p (id function)
  "Whether FUNCTION listens to session ID."
  (when-let* ((session (gethash id sessiond--sessions)))
    (and (cl-find function (sessiond--session-listeners session)
                  :key #'sessiond--listener-function)
         t)))

(defun sessiond-detach (id function)
  "FUNCTION no longer listens to session ID.
When nobody does the session is closed, and saved by the daemon if
it was the last tool that had it open."
  (when-let* ((session (gethash id sessiond--sessions)))
    (setf (sessiond--session-listeners session)
          (cl-delete function (sessiond--session-listeners session)
                     :key #'sessiond--listener-function))
    (unless (sessiond--session-listeners session)
      (remhash id sessiond--sessions)
      (when (sessiond-connected-p)
        (sessiond--send 'session/close (list :sessionId id)
                        #'ignore #'ignore sessiond--patience)))))

(defun sessiond--deliver (session event data)
  "Tell those who listen to SESSION of EVENT with DATA."
  (dolist (listener (sessiond--session-listeners session))
    (when (or (sessiond--listener-active listener)
              (memq event '(lost unreachable deleted)))
      (sessiond--guarded
        (funcall (sessiond--listener-function listener) event data)))))

(defun sessiond--open (session listener)
  "Open SESSION for LISTENER, from scratch."
  (let ((function (sessiond--listener-function listener))
        (last (sessiond--listener-last listener)))
    (sessiond--send
     'session/open
     `(:sessionId ,(sessiond--session-id session) ,@(and last `(:last ,last)))
     (lambda (result)
       (when (memq listener (sessiond--session-listeners session))
         (sessiond--learn session (plist-get result :session) t)
         (setf (sessiond--listener-active listener) t)
         (sessiond--guarded (funcall function 'opened result))))
     (lambda (error)
       (unless (equal (plist-get error :kind) "disconnected")
         (sessiond-detach (sessiond--session-id session) function)
         (sessiond--guarded (funcall function 'failed error))))
     sessiond--patience)))

(defun sessiond--come-back (session)
  "Open SESSION again, which was open on an earlier connection."
  (let ((active nil))
    (dolist (listener (sessiond--session-listeners session))
      (if (sessiond--listener-active listener)
          (setq active t)
        (sessiond--open session listener)))
    (when active
      (sessiond--read-on session))))

(defun sessiond--read-on (session)
  "Read what has happened to SESSION since the newest change that we know."
  (setf (sessiond--session-reading session) t)
  (sessiond--send
   'session/open
   (list :sessionId (sessiond--session-id session)
         :since (sessiond--session-seq session))
   (lambda (result)
     (let ((changes (plist-get result :changes)))
       (if (null changes)
           (sessiond--read-again session)
         (setf (sessiond--session-reading session) nil)
         (sessiond--learn session (plist-get result :session) t)
         (sessiond--deliver session 'changed (append changes nil)))))
   (lambda (error) (sessiond--reading-failed session error))
   sessiond--patience))

(defun sessiond--read-again (session)
  "Read SESSION as if it had never been open."
  (setf (sessiond--session-reading session) t)
  (let ((last (mapcar #'sessiond--listener-last
                      (sessiond--session-listeners session))))
    (sessiond--send
     'session/open
     `( :sessionId ,(sessiond--session-id session)
        ,@(unless (memq nil last) `(:last ,(apply #'max last))))
     (lambda (result)
       (setf (sessiond--session-reading session) nil)
       (sessiond--learn session (plist-get result :session) t)
       (sessiond--deliver session 'opened result))
     (lambda (error) (sessiond--reading-failed session error))
     sessiond--patience)))

(defun sessiond--reading-failed (session error)
  "Handle ERROR, with which reading SESSION again has failed."
  (setf (sessiond--session-reading session) nil)
  (pcase (plist-get error :kind)
    ("disconnected")                    ; we will reconnect
    ("sessionNotFound" (sessiond--gone session))
    ("timeout" (sessiond--read-on session)) ; or we never get what we missed
    (_ (sessiond--deliver session 'failed error))))

(defun sessiond--gone (session &optional moved-to)
  "SESSION was deleted, or is MOVED-TO now, another id."
  (remhash (sessiond--session-id session) sessiond--sessions)
  (sessiond--deliver session 'deleted moved-to))

(defun sessiond--learn (session info seq)
  "Remember INFO of SESSION; with SEQ non-nil also how far we have read."
  (setf (sessiond--session-info session) info)
  (sessiond-hubs-need (plist-get info :store))
  (clrhash (sessiond--session-counted session))
  (when seq
    (setf (sessiond--session-seq session) (plist-get info :seq))))

(defun sessiond--reckon (session change)
  "Update what we know about SESSION with CHANGE."
  (let ((info (sessiond--session-info session))
        (counted (sessiond--session-counted session)))
    (pcase (plist-get change :kind)
      ("updated" (sessiond--learn session (plist-get change :session) nil))
      ("cleared" (setf (plist-get info :messageCount) 0))
      ("truncated" (sessiond--refresh-info session))
      ("appended"
       (seq-doseq (message (plist-get change :messages))
         (let ((id (plist-get message :id)))
           (when (and info
                      (> (plist-get message :seq) (plist-get info :seq))
                      (not (gethash id counted)))
             (puthash id t counted)
             (plist-put info :messageCount
                        (1+ (or (plist-get info :messageCount) 0))))))))))

(defun sessiond--refresh-info (session)
  "Ask how many messages SESSION has left."
  (sessiond--send
   'session/open (list :sessionId (sessiond--session-id session)
                       :since (sessiond--session-seq session))
   (lambda (result)
     (sessiond--learn session (plist-get result :session) nil)
     (sessiond--deliver session 'changed nil))
   #'ignore sessiond--patience))


;;; Notifications from the daemon

(defun sessiond--heard (method params)
  "METHOD with PARAMS has arrived."
  (if (eq method 'window/logMessage)
      (when (eql (plist-get params :type) 1)
        (message "sessiond: %s" (plist-get params :message)))
    (when-let* ((session (gethash (or (plist-get params :sessionId)
                                     (plist-get (plist-get params :session)
                                                :sessionId))
                                 sessiond--sessions)))
      (sessiond--happened session method params))))

(defun sessiond--connection-changed (event error)
  "EVENT, with ERROR, has happened to the connection."
  ;; Say it only once: we keep trying for as long as somebody listens.
  (when (and (eq event 'unreachable) (sessiond--listening-p) (< sessiond--retries 2))
    (sessiond-tell-error error))
  (dolist (session (hash-table-values sessiond--sessions))
    (if (eq event 'ready)
        (sessiond--come-back session)
      (sessiond--deliver session event error))))

(defun sessiond--listening-p ()
  "Whether anybody listens to a session."
  (> (hash-table-count sessiond--sessions) 0))

(add-hook 'sessiond-notification-functions #'sessiond--heard)
(add-hook 'sessiond-connection-functions #'sessiond--connection-changed)
(add-hook 'sessiond--needed-functions #'sessiond--listening-p)

(defun sessiond--happened (session method params)
  "The daemon has sent METHOD with PARAMS about SESSION."
  (pcase method
    ('session/changed
     (unless (sessiond--session-reading session)
       (cl-callf max (sessiond--session-seq session) (plist-get params :seq))
       (sessiond--tell session (append (plist-get params :changes) nil))))
    ('session/saved (sessiond--deliver session 'saved params))
    ('session/reloaded (sessiond--read-again session))
    ('session/resync (sessiond--read-on session))
    ('session/deleted (sessiond--gone session (plist-get params :movedTo)))))

(defun sessiond--tell (session news)
  "Tell the listeners of SESSION the NEWS, a list."
  (dolist (change news)
    (sessiond--reckon session change))
  (sessiond--deliver session 'changed news))

(defun sessiond--done (id change &optional first)
  "Our own CHANGE to session ID is durable: tell the listeners here.
FIRST is its first seq, if all of its seqs are certain."
  (when-let* ((session (gethash id sessiond--sessions)))
    (when (and first (= first (1+ (sessiond--session-seq session))))
      (setf (sessiond--session-seq session) (plist-get change :seq)))
    (sessiond--tell session (list change))))


;;; Changing sessions, for other packages

(defun sessiond-new-id ()
  "A new id for a message or a note."
  (format "e%08x%08x" (random #x100000000) (random #x100000000)))

(defun sessiond--now ()
  "The current time in the protocol's format."
  (format-time-string "%Y-%m-%dT%H:%M:%S.%3NZ" nil t))

(cl-defun sessiond-append (id messages &key on-result on-error)
  "Append MESSAGES, a list of plists, to session ID.
Each has `:role' and `:content'; a missing `:id' is made.  With
`:status' \"streaming\" a message can be grown by `sessiond-extend'.
ON-RESULT is called once they are durable.  Returns an entry for
`sessiond-withdraw'."
  (let ((messages (mapcar (lambda (message)
                            (if (plist-get message :id)
                                message
                              `(:id ,(sessiond-new-id) ,@message)))
                          messages)))
    (sessiond--post
     'session/append (list :sessionId id :messages (vconcat messages))
     (lambda (result)
       (sessiond--appended id messages result)
       (when on-result (funcall on-result result)))
     on-error)))

(defun sessiond--appended (id messages result)
  "MESSAGES that we sent to session ID are durable, with seqs from RESULT."
  (let* ((seqs (mapcar (lambda (one) (plist-get one :seq))
                       (plist-get result :messages)))
         (now (sessiond--now))
         (told (cl-mapcar (lambda (message seq)
                            `( :seq ,seq ,@message
                               ,@(unless (plist-get message :timestamp)
                                   `(:timestamp ,now))))
                          messages seqs)))
    (when seqs
      (sessiond--done id (list :kind "appended" :seq (apply #'max seqs)
                               :messages (vconcat told))
                      (apply #'min seqs)))))

(cl-defun sessiond-extend (id message-id text offset &key on-result on-error)
  "Add TEXT to the streamed message MESSAGE-ID of session ID.
OFFSET is the number of characters that it already has.  ON-RESULT,
ON-ERROR and the value are as in `sessiond-append'."
  (sessiond--post
   'session/extend
   (list :sessionId id :messageId message-id :text text :offset offset)
   (lambda (result)
     (let ((seq (plist-get result :seq)))
       (sessiond--done id (list :kind "extended" :seq seq :messageId message-id
                                :offset offset :text text)
                       seq))
     (when on-result (funcall on-result result)))
   on-error))

(cl-defun sessiond-finish (id message-id &key status metadata tool-calls on-result on-error)
  "The streamed message MESSAGE-ID of session ID is complete.
STATUS is \"done\" unless given; METADATA, a plist, and
TOOL-CALLS, a vector, are added to it.  ON-RESULT, ON-ERROR and
the value are as in `sessiond-append'."
  (let ((more `(,@(and metadata (list :metadata metadata))
                ,@(and tool-calls (list :toolCalls tool-calls)))))
    (sessiond--post
     'session/finish
     `(:sessionId ,id :messageId ,message-id :status ,(or status "done") ,@more)
     (lambda (result)
       (let ((seq (plist-get result :seq)))
         (sessiond--done id `( :kind "finished" :seq ,seq :messageId ,message-id
                               :status ,(or status "done") ,@more)
                         seq))
       (when on-result (funcall on-result result)))
     on-error)))

(cl-defun sessiond-add-note (id heading content &key thread tick on-result on-error)
  "Add CONTENT under HEADING to the notes of session ID.
THREAD, a string, makes it a note of that thread only; TICK is a
number.  ON-RESULT, ON-ERROR and the value are as in
`sessiond-append'."
  (sessiond--post
   'note/append
   `( :sessionId ,id :heading ,heading :content ,content :id ,(sessiond-new-id)
      ,@(and thread `(:thread ,thread)) ,@(and tick `(:tick ,tick)))
   (lambda (result)
     (let ((note (plist-get result :note)))
       (sessiond--done id (list :kind "note" :seq (plist-get note :seq) :note note)
                       (plist-get note :seq)))
     (when on-result (funcall on-result result)))
   on-error))

(cl-defun sessiond-set-state (id values &key on-result on-error)
  "Set VALUES, a plist, in the state of session ID; nil deletes a key.
ON-RESULT, ON-ERROR and the value are as in `sessiond-append'."
  (sessiond--post
   'state/set (list :sessionId id :values values)
   (lambda (result)
     (sessiond--done id (list :kind "state" :seq (plist-get result :seq)
                              :values values :ours t))
     (when on-result (funcall on-result result)))
   on-error))

(cl-defun sessiond-update (id fields &key on-result on-error)
  "Change FIELDS, a plist, of session ID: `:name', `:tags' and so on.
ON-RESULT and ON-ERROR are as in `sessiond-request'."
  (sessiond-request
   'session/update `(:sessionId ,id ,@fields)
   :on-error on-error
   :on-result (lambda (result)
                (let ((info (plist-get result :session)))
                  (sessiond--done id (list :kind "updated" :seq (plist-get info :seq)
                                           :session info :fields fields)))
                (when on-result (funcall on-result result)))))

(cl-defun sessiond-truncate (id after-seq &key on-result on-error)
  "Remove the messages with a seq above AFTER-SEQ from session ID.
They go to the trash.  ON-RESULT and ON-ERROR are as in
`sessiond-request'."
  (sessiond-request
   'session/truncate (list :sessionId id :afterSeq after-seq)
   :on-error on-error
   :on-result (lambda (result)
                (let ((seq (plist-get (plist-get result :session) :seq)))
                  (sessiond--done id (list :kind "truncated" :seq seq
                                           :afterSeq after-seq)))
                (when on-result (funcall on-result result)))))

(cl-defun sessiond-clear (id &key on-result on-error)
  "Save session ID, then remove all of its messages.
ON-RESULT and ON-ERROR are as in `sessiond-request'."
  (sessiond-request
   'session/clear (list :sessionId id)
   :on-error on-error
   :on-result (lambda (result)
                (let ((seq (plist-get (plist-get result :session) :seq)))
                  (sessiond--done id (list :kind "cleared" :seq seq)))
                (when on-result (funcall on-result result)))))


;;; Asking

(defun sessiond-list (&optional filter)
  "All sessions as a list of SessionInfo plists, newest first.
FILTER is a plist as in session/list.  Waits as `sessiond-call' does."
  (let ((deadline (+ (float-time) sessiond-timeout))
        (cursor nil)
        (sessions nil)
        (more t))
    (while more
      (let ((page (sessiond-call 'session/list
                                 `( :limit 1000
                                    ,@(and filter (list :filter filter))
                                    ,@(and cursor (list :cursor cursor)))
                                 (max 0 (- deadline (float-time))))))
        (push (append (plist-get page :sessions) nil) sessions)
        (setq cursor (plist-get page :nextCursor)
              more cursor)))
    (apply #'append (nreverse sessions))))

(defun sessiond-mode-line (id)
  "The mode line construct for session ID: \"[name:count]\".
In a session of a shared store \"shared\", \"3 waiting\" or
\"offline since 14:30, 3 waiting\" follows."
  (let ((info (or (sessiond-info id) (list :sessionId id))))
    (replace-regexp-in-string
     "%" "%%"
     (format "[%s:%s]%s%s"
             (truncate-string-to-width (sessiond-title info) 40 nil nil t)
             (or (plist-get info :messageCount) "?")
             (if (sessiond-connected-p) "" " offline")
             (sessiond-hubs-words (plist-get info :store))))))

(provide 'sessiond)
;;; sessiond.el ends here
