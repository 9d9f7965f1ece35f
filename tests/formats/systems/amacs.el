;;; amacs.el --- the source system's own way with its files -*- lexical-binding: t; -*-

;; Written after amacs' description of its two files, to read what sessiond writes and to write what sessiond reads.
;; Each function takes and answers plists; `amacs-main' runs one call from the command line and prints JSON.

;;; Code:

(require 'org)
(require 'org-element)
(require 'json)
(require 'subr-x)

(defun amacs--append (file text)
  "Put TEXT at the end of FILE."
  (let ((coding-system-for-write 'utf-8-unix))
    (write-region text nil file t 'silent)))

(defmacro amacs--with-file (file &rest body)
  "Run BODY in an Org buffer with the text of FILE, which may be missing."
  (declare (indent 1))
  `(with-temp-buffer
     (when (file-exists-p ,file)
       (let ((coding-system-for-read 'utf-8)) (insert-file-contents ,file)))
     (let ((org-inhibit-startup t)) (org-mode))
     (goto-char (point-min))
     ,@body))

(defun amacs--contents (headline)
  "The text below HEADLINE, without its property drawer."
  (save-excursion
    (goto-char (org-element-property :begin headline))
    (org-end-of-meta-data)
    (let ((end (org-element-property :end headline)))
      (string-trim (buffer-substring-no-properties (min (point) end) end)))))

(defun agent-chat-append-exchange (file tick human agent time)
  "Add one exchange to FILE."
  (amacs--append
   file (format "* Tick %d\n:PROPERTIES:\n:TIMESTAMP: %s\n:END:\n\n** Human\n%s\n\n** Agent\n%s\n\n" tick time human agent)))

(defun agent-chat-load-history (file)
  "The exchanges of FILE as plists with :human, :agent and :tick."
  (amacs--with-file file
    (org-element-map (org-element-parse-buffer 'headline) 'headline
      (lambda (headline)
        (when (and (= 1 (org-element-property :level headline))
                   (string-match "\\`Tick \\([0-9]+\\)" (org-element-property :raw-value headline)))
          (let ((tick (string-to-number (match-string 1 (org-element-property :raw-value headline)))) human agent)
            (org-element-map (org-element-contents headline) 'headline
              (lambda (turn)
                (pcase (org-element-property :raw-value turn)
                  ("Human" (setq human (amacs--contents turn)))
                  ("Agent" (setq agent (amacs--contents turn))))
                nil))
            (list :human human :agent agent :tick tick
                  :timestamp (org-element-property :TIMESTAMP headline))))))))

(defun agent-scratchpad-append (file heading content thread tick)
  "Put CONTENT under HEADING of THREAD in FILE, which is made if it is new."
  (amacs--with-file file
    (let ((found nil))
      (org-map-entries
       (lambda ()
         (when (and (equal heading (org-get-heading t t t t))
                    (equal (or thread "null") (org-entry-get nil "THREAD")))
           (setq found (save-excursion (org-end-of-subtree t) (point))))))
      (if found
          (progn (goto-char found) (insert "\n" content))
        (goto-char (point-max))
        (unless (bolp) (insert "\n"))
        (insert (format "* %s\n:PROPERTIES:\n:THREAD: %s\n:TICK: %d\n:END:\n%s\n" heading (or thread "null") tick content))))
    (let ((coding-system-for-write 'utf-8-unix))
      (write-region nil nil file nil 'silent))))

(defun agent-scratchpad-load (file)
  "The notes of FILE as plists with :heading, :thread, :tick and :content."
  (amacs--with-file file
    (org-element-map (org-element-parse-buffer 'headline) 'headline
      (lambda (headline)
        (when (= 1 (org-element-property :level headline))
          (let ((thread (org-element-property :THREAD headline)))
            (list :heading (org-element-property :raw-value headline)
                  :thread (unless (equal thread "null") thread)
                  :tick (string-to-number (or (org-element-property :TICK headline) "0"))
                  :content (amacs--contents headline))))))))

(defun agent-scratchpad-filter-by-thread (notes thread)
  "Those of NOTES that are global or belong to THREAD."
  (seq-filter (lambda (note) (member (plist-get note :thread) (list nil thread))) notes))

(defun amacs-structure (file)
  "Every element of FILE that is more than text: (TYPE LEVEL TITLE) in order."
  (amacs--with-file file
    (org-element-map (org-element-parse-buffer)
        '(headline property-drawer drawer planning clock keyword src-block example-block special-block dynamic-block
                   diary-sexp inlinetask babel-call export-block quote-block center-block verse-block comment-block)
      (lambda (element)
        (list (symbol-name (car element))
              (or (org-element-property :level element) 0)
              (or (org-element-property :raw-value element) ""))))))

(defvar amacs-evaluated nil "What a file made Emacs evaluate.")

(defun amacs-visit (file)
  "Visit FILE as a careless user does, who lets it set whatever it wants; answers what was evaluated."
  (let ((enable-local-variables :all) (enable-local-eval t) (enable-dir-local-variables nil) (org-inhibit-startup nil))
    (with-current-buffer (find-file-noselect file)
      (require 'org-agenda)
      (let ((org-agenda-files (list file)))
        (ignore-errors (org-agenda-get-day-entries file (calendar-current-date) :sexp :timestamp :scheduled :deadline)))
      (format "%S" (list amacs-evaluated (bound-and-true-p amacs-set))))))

(defun amacs-main ()
  "Run the calls in the JSON file that is named first on the command line; write their answers to the second."
  (let* ((json-object-type 'plist) (json-array-type 'list) (json-null nil) (coding-system-for-read 'utf-8)
         (calls (json-read-file (pop command-line-args-left)))
         (answers (mapcar (lambda (call) (apply (intern (car call)) (cdr call))) calls))
         (coding-system-for-write 'utf-8-unix)
         (out (pop command-line-args-left)))
    (with-temp-file out
      (insert (json-encode (vconcat (mapcar #'amacs--vector answers)))))))

(defun amacs--vector (value)
  "VALUE as JSON has it: lists of plists are arrays of objects."
  (cond ((and (consp value) (keywordp (car value))) value)
        ((consp value) (vconcat (mapcar #'amacs--vector value)))
        ((null value) [])
        (t value)))

(provide 'amacs)
;;; amacs.el ends here
