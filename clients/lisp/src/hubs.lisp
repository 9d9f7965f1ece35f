;;;; Whether the sessions of shared stores are shared now.
;;;;
;;;; The hub of a shared store is where several machines meet. The daemon says in daemon/status whether it can be reached
;;;; and how many changes wait here, and in store/hubChanged when that changes. It is asked once on each connection, and
;;;; only if a session of another store than the default one is open: that one is never shared. What it tells while it is
;;;; being asked is newer than its answer.

(in-package "SESSIOND")

(defclass hubs ()
  ((known :initform (make-hash-table :test #'equal) :reader hubs-known :documentation "Name of a store -> HubStatus.")
   (told :initform '() :accessor hubs-told :documentation "The stores of which the daemon has told.")
   (asked :initform nil :accessor hubs-asked))
  (:documentation "What is known over one connection. Everything in it is changed with the client's lock held."))

(defun store-of (session)
  "The name of its store; NIL for the default one."
  (let* ((id (session-id session))
         (slash (position #\/ id)))
    (and slash (subseq id 0 slash))))

(defun need-hubs (client session ask)
  "SESSION is open: have ASK (method params) tell of the hubs, unless that was done."
  (let ((hubs (client-hubs client)))
    (when (and (store-of session)
               (bt:with-lock-held ((client-lock client))
                 (unless (hubs-asked hubs) (setf (hubs-asked hubs) t))))
      (let ((status (handler-bind ((error (lambda (problem)
                                            (declare (ignore problem))
                                            (bt:with-lock-held ((client-lock client)) (setf (hubs-asked hubs) nil)))))
                      (funcall ask "daemon/status" (obj)))))
        (bt:with-lock-held ((client-lock client))
          (loop for store across (ref status "stores")
                for name = (ref store "name")
                when (and (ref store "hub") (not (member name (hubs-told hubs) :test #'equal)))
                  do (setf (gethash name (hubs-known hubs)) (ref store "hub"))))))))

(defun hear-hub (client hubs params)
  "store/hubChanged has arrived over the connection of HUBS. Its sessions' listeners hear of it as :HUB."
  (let ((store (ref params "store")))
    (dolist (session (bt:with-lock-held ((client-lock client))
                       (pushnew store (hubs-told hubs) :test #'equal)
                       (setf (gethash store (hubs-known hubs)) (ref params "hub"))
                       (loop for session being the hash-values of (client-sessions client)
                             when (equal (store-of session) store) collect session)))
      (bt:with-recursive-lock-held ((session-lock session))
        (emit session :hub params)))))

(defun hub-status (session)
  "What is known now of the hub of its store, as an object of the wire; NIL if it is not shared, or nothing is known yet."
  (let* ((client (session-client session))
         (store (store-of session)))
    (and store (bt:with-lock-held ((client-lock client))
                 (gethash store (hubs-known (client-hubs client)))))))

(defun sharing-label (session)
  "`shared`, `3 waiting`, or `offline since 14:30, 3 waiting`; NIL if nothing is known of a hub."
  (let ((hub (hub-status session)))
    (and hub (hub-words hub))))

(defun hub-words (hub &optional (now (get-universal-time)))
  (let* ((pending (or (ref hub "pending") 0))
         (waiting (and (plusp pending) (format nil "~D waiting" pending))))
    (if (equal (ref hub "state") "offline")
        (format nil "~A~@[, ~A~]" (since-words (ref hub "since") now) waiting)
        (or waiting "shared"))))

(defun since-words (stamp now)
  "`offline since` the local time of STAMP (RFC 3339 in UTC), with its date on another day."
  (let ((time (universal-of stamp)))
    (if (null time)
        "offline"
        (flet ((parts (time)
                 (multiple-value-bind (second minute hour day month year) (decode-universal-time time)
                   (declare (ignore second))
                   (list (list year month day) hour minute))))
          (destructuring-bind (date hour minute) (parts time)
            (format nil "offline since ~:[~{~4,'0D-~2,'0D-~2,'0D~} ~;~*~]~2,'0D:~2,'0D"
                    (equal date (first (parts now))) date hour minute))))))

(defun universal-of (stamp)
  "YYYY-MM-DDTHH:MM:SS... in UTC as a universal time; NIL if it is something else."
  (flet ((part (start end) (parse-integer stamp :start start :end end)))
    (and (stringp stamp)
         (ignore-errors
          (encode-universal-time (part 17 19) (part 14 16) (part 11 13) (part 8 10) (part 5 7) (part 0 4) 0)))))
