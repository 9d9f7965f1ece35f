;;;; Unsent text, kept by the daemon in the session's state under `draft:NAME` of the client, so that it outlives this
;;;; Lisp. A separate thread sends it at most once a second, so typing never waits.

(in-package "SESSIOND")

(defconstant +draft-interval-s+ 1)
(defvar *draft-patience* 2
  "Seconds that leaving waits until the daemon has the last draft.")

(defun draft-key (session)
  (concatenate 'string "draft:" (client-name (session-client session))))

(defun draft (session)
  "The unsent text of SESSION, typed here or earlier by a client of this name; the empty string if there is none."
  (bt:with-recursive-lock-held ((session-lock session))
    (let ((stored (ref (session-state session) (draft-key session))))
      (or (session-draft session) (if (stringp stored) stored "")))))

(defun keep-draft (session text)
  "TEXT is the unsent text now; the empty string removes the draft. Returns at once."
  (let ((client (session-client session)))
    (bt:with-recursive-lock-held ((session-lock session))
      (unless (session-draft session)
        (setf (session-kept-draft session) (draft session)))
      (setf (session-draft session) text))
    (bt:with-lock-held ((client-lock client))
      (unless (or (client-drafter client) (client-closing client))
        (setf (client-drafter client)
              (bt:make-thread (lambda () (keep-drafts client)) :name "sessiond drafts")))
      (wake-client client)))
  (values))

(defun unkept-draft (session)
  "The text that the daemon does not have yet; NIL if it is up to date."
  (bt:with-recursive-lock-held ((session-lock session))
    (unless (equal (session-draft session) (session-kept-draft session))
      (session-draft session))))

(defun store-draft (session &optional (timeout *request-timeout*))
  "Send it if the daemon does not have it. A refusal is reported once, and the text is sent again when it has changed."
  (let ((text (unkept-draft session)))
    (when text
      (handler-case
          (let* ((values (obj (draft-key session) (if (string= text "") :null text)))
                 (answer (call (session-client session) "state/set"
                               (obj :session-id (session-id session) :values values) timeout)))
            (take-own session (obj :kind "state" :seq (ref answer "seq") :values values))
            (setf (session-kept-draft session) text))
        ((or connection-lost unreachable request-timeout) ()) ; the next round tries again
        (sessiond-error (problem)
          (setf (session-kept-draft session) text)
          (unless (string= (sessiond-error-kind problem) "sessionNotFound")
            (warn "sessiond: the draft is not kept: ~A" problem)))
        ;; A malformed answer must not end the thread, and with it perhaps the Lisp.
        (error (problem)
          (setf (session-kept-draft session) text)
          (warn "sessiond: the draft may not be kept: ~A" problem))))))

(defun open-sessions (client)
  (bt:with-lock-held ((client-lock client))
    (loop for session being the hash-values of (client-sessions client) collect session)))

(defun keep-drafts (client)
  "The drafter's thread."
  (loop
    (mapc #'store-draft (remove nil (open-sessions client) :key #'unkept-draft))
    (let ((next (+ (get-internal-real-time) (* +draft-interval-s+ internal-time-units-per-second))))
      (bt:with-lock-held ((client-lock client))
        (loop for left = (/ (- next (get-internal-real-time)) internal-time-units-per-second)
              until (or (client-closing client) (<= left 0))
              do (bt:condition-wait (client-changed client) (client-lock client) :timeout (float left 1d0)))))
    (loop until (some #'unkept-draft (open-sessions client))
          do (bt:with-lock-held ((client-lock client))
               (when (client-closing client) (return-from keep-drafts))
               (bt:condition-wait (client-changed client) (client-lock client) :timeout (float +draft-interval-s+ 1d0))))
    (when (client-closing client) (return))))

(defun flush-draft (session)
  "Called before SESSION is left: when this returns the daemon has its draft, or cannot be reached."
  (when (and (unkept-draft session) (connected-p (session-client session)))
    (store-draft session *draft-patience*)))

(defun flush-drafts (client)
  (unless (client-closing client)
    (mapc #'flush-draft (open-sessions client))))
