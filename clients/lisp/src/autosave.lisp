;;;; A thread that saves now and then, and stops at once when it is told to.

(in-package "SESSIOND")

(defclass auto-save ()
  ((session :initarg :session :accessor auto-save-session :documentation "May be another one from some moment on.")
   (interval :initarg :interval :reader auto-save-interval)
   (lock :initform (bt:make-lock "sessiond auto-save") :reader auto-save-lock)
   (told :initform (bt:make-condition-variable :name "sessiond auto-save") :reader auto-save-told)
   (stopping :initform nil :accessor auto-save-stopping)
   (thread :initform nil :accessor auto-save-thread)))

(defun start-auto-save (session &key (interval 300))
  "Save SESSION every INTERVAL seconds. 0 or NIL: only STOP-AUTO-SAVE saves, at the end."
  (let ((auto-save (make-instance 'auto-save :session session :interval interval)))
    (when (and interval (plusp interval))
      (setf (auto-save-thread auto-save)
            (bt:make-thread (lambda () (save-now-and-then auto-save)) :name "sessiond auto-save")))
    auto-save))

(defun auto-save-running-p (auto-save)
  (and (auto-save-thread auto-save) (bt:thread-alive-p (auto-save-thread auto-save))))

(defun stop-auto-save (auto-save &key (save t))
  "End the thread, and save the session again unless SAVE is NIL."
  (bt:with-lock-held ((auto-save-lock auto-save))
    (setf (auto-save-stopping auto-save) t)
    (bt:condition-notify (auto-save-told auto-save)))
  (when (auto-save-thread auto-save)
    (bt:join-thread (auto-save-thread auto-save)))
  (when save
    (save-session (auto-save-session auto-save)))
  (values))

(defun save-now-and-then (auto-save)
  (let ((next (next-save auto-save)))
    (loop
      (bt:with-lock-held ((auto-save-lock auto-save))
        (loop for left = (/ (- next (get-internal-real-time)) internal-time-units-per-second)
              until (or (auto-save-stopping auto-save) (<= left 0))
              do (bt:condition-wait (auto-save-told auto-save) (auto-save-lock auto-save) :timeout (float left 1d0)))
        (when (auto-save-stopping auto-save) (return)))
      ;; A save that fails is tried again next time: nothing is lost, because the daemon's journal has
      ;; everything.
      (handler-case (save-session (auto-save-session auto-save))
        (sessiond-error (problem) (warn "sessiond: auto-save: ~A" problem)))
      (setf next (next-save auto-save)))))

(defun next-save (auto-save)
  (+ (get-internal-real-time) (* (auto-save-interval auto-save) internal-time-units-per-second)))
