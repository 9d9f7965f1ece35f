;;; sessiond-wire-test.el --- The project's wire transcripts, replayed  -*- lexical-binding: t; -*-

;;; Commentary:

;; The folder named by SESSIOND_WIRE holds transcripts, see its README.md.
;; Each begins with a daemon that knows nothing, so each gets a home of its own.

;;; Code:

(require 'sessiond-test-support)

(defvar sessiond-wire-test--names nil "What $names stand for, a hash table.")

(defun sessiond-wire-test-parse (text)
  "TEXT, JSON, with objects as hash tables and false as `:json-false'."
  (json-parse-string (if (string-empty-p text) "{}" text)
                     :null-object nil :false-object :json-false))

(defun sessiond-wire-test-fill (value)
  "VALUE with what $names in it stand for."
  (cond ((stringp value) (gethash value sessiond-wire-test--names value))
        ((vectorp value) (vconcat (mapcar #'sessiond-wire-test-fill value)))
        ((hash-table-p value)
         (let ((filled (make-hash-table :test #'equal)))
           (maphash (lambda (key item)
                      (puthash key (sessiond-wire-test-fill item) filled))
                    value)
           filled))
        (t value)))

(defun sessiond-wire-test-match (expected found where)
  "Fail unless FOUND, as jsonrpc.el has it, holds at least EXPECTED; WHERE it is."
  (cond
   ((equal expected "..."))
   ((and (stringp expected) (string-prefix-p "$" expected))
    (should (equal (or (gethash expected sessiond-wire-test--names)
                       (puthash expected found sessiond-wire-test--names))
                   found)))
   ((hash-table-p expected)
    (maphash (lambda (key value)
               (let ((keyword (intern (concat ":" key))))
                 (unless (plist-member found keyword)
                   (ert-fail (list where key "is missing in" found)))
                 (sessiond-wire-test-match value (plist-get found keyword)
                                           (concat where "." key))))
             expected))
   ((vectorp expected)
    (unless (and (vectorp found) (= (length expected) (length found)))
      (ert-fail (list where expected found)))
    (cl-mapc (lambda (one other) (sessiond-wire-test-match one other where))
             expected found))
   ((not (equal expected found))
    (ert-fail (list where "expected" expected "found" found)))))

(defun sessiond-wire-test-split (text)
  "TEXT as a cons of its first word and the JSON that follows."
  (let ((blank (string-match " " text)))
    (if blank
        (cons (substring text 0 blank)
              (sessiond-wire-test-parse (string-trim (substring text blank))))
      (cons text (sessiond-wire-test-parse "")))))

(defun sessiond-wire-test-line (line peers)
  "Do what LINE of a transcript says; PEERS is a hash table by name."
  (let* ((who (substring line 0 1))
         (rest (string-trim (substring line 2)))
         (state (or (gethash who peers)
                    (puthash who (list (sessiond-test-peer who) nil) peers)))
         (peer (car state)))
    (pcase (aref line 1)
      (?- (sessiond-test-leave peer)
          (remhash who peers))
      ((and ?> (guard (string-prefix-p "!" rest)))
       (pcase-let ((`(,method . ,params)
                    (sessiond-wire-test-split (string-trim (substring rest 1)))))
         (jsonrpc-notify (sessiond-test-peer-connection peer) (intern method)
                         (sessiond-wire-test-fill params))))
      (?> (pcase-let ((`(,method . ,params) (sessiond-wire-test-split rest))
                      (cell (list nil)))
            (setcar (cdr state) cell)
            (jsonrpc-async-request
             (sessiond-test-peer-connection peer) (intern method)
             (sessiond-wire-test-fill params)
             :timeout 20
             :success-fn (lambda (result) (setcar cell (list t result)))
             :error-fn (lambda (error) (setcar cell (list nil error))))))
      (?< (pcase (sessiond-test-until (car (nth 1 state)))
            (`(t ,result)
             (sessiond-wire-test-match (sessiond-wire-test-parse rest) result "result"))
            (`(nil ,error) (ert-fail error))))
      (?! (pcase-let ((`(,kind . ,data) (sessiond-wire-test-split rest))
                      (`(,fine ,error) (sessiond-test-until (car (nth 1 state)))))
            (should-not fine)
            (should (equal (plist-get (plist-get error :data) :kind) kind))
            (sessiond-wire-test-match data (plist-get error :data) "error.data")))
      (?* (pcase-let ((`(,method . ,params) (sessiond-wire-test-split rest)))
            (sessiond-wire-test-match
             params (sessiond-test-next peer (intern method)) method)))
      (_ (ert-fail (list "not a line of a transcript" line))))))

(defun sessiond-wire-test-replay (file)
  "Replay the transcript FILE against a daemon of its own."
  (let* ((home (make-temp-file "sessiond-wire" t))
         (process-environment (cons (concat "SESSIOND_HOME=" home) process-environment))
         (sessiond-wire-test--names (make-hash-table :test #'equal))
         (peers (make-hash-table :test #'equal)))
    (unwind-protect
        (with-temp-buffer
          (let ((coding-system-for-read 'utf-8))
            (insert-file-contents file))
          (dolist (line (split-string (buffer-string) "\n" t))
            (unless (string-prefix-p "#" line)
              (ert-info (line :prefix (concat (file-name-nondirectory file) ": "))
                (sessiond-wire-test-line line peers)))))
      (maphash (lambda (_ state) (sessiond-test-leave (car state))) peers)
      (call-process sessiond-test-program nil nil nil "stop")
      (delete-directory home t))))

(dolist (file (directory-files (or (getenv "SESSIOND_WIRE")
                                   (error "Set SESSIOND_WIRE to the folder of transcripts"))
                               t "\\.wire\\'"))
  (let ((name (intern (concat "sessiond-wire-" (file-name-base file)))))
    (ert-set-test name
                  (make-ert-test :name name
                                 :documentation "The daemon answers as the transcript says."
                                 :body (lambda () (sessiond-wire-test-replay file))))))

(provide 'sessiond-wire-test)
;;; sessiond-wire-test.el ends here
