;;; sessiond-transcript.el --- The messages of a session in a buffer  -*- lexical-binding: t; -*-

;; Copyright (C) 2026 the sessiond authors

;; Author: the sessiond authors
;; SPDX-License-Identifier: MIT

;;; Commentary:

;; The upper part of a chat buffer.  It knows nothing about the daemon: it is
;; told about messages and changes, and shows them.
;;
;; The rules of this file:
;;
;; 1. Between `sessiond-transcript--start' and `sessiond-transcript--end' are
;;    messages in the order of their seqs, each once, even if they arrive
;;    twice.  Before the start there is at most one button, for earlier
;;    messages; text after the end is not ours.
;; 2. A message is found by its text properties, not by markers, so that a
;;    long transcript costs nothing while somebody types: `sessiond-id' and
;;    `sessiond-seq' are on all of it, and `sessiond-part' says `heading',
;;    `text' or `tail'.
;; 3. The part `text' is the content, character by character, so its length
;;    is the offset at which a streamed message continues.
;; 4. People cannot undo our edits: they leave the undo list alone, except for
;;    shifting the positions in it.

;;; Code:

(require 'cl-lib)
(require 'button)
(require 'sessiond)

(defface sessiond-user '((t :inherit (font-lock-keyword-face bold)))
  "The heading of what a person said." :group 'sessiond)
(defface sessiond-assistant '((t :inherit (font-lock-function-name-face bold)))
  "The heading of what a model said." :group 'sessiond)
(defface sessiond-other '((t :inherit (font-lock-constant-face bold)))
  "The heading of a system's or a tool's message." :group 'sessiond)
(defface sessiond-detail '((t :inherit shadow))
  "Times, thinking and tool calls." :group 'sessiond)

(defconst sessiond-transcript-mark "◆ "
  "The beginning of each message's heading.")

(defconst sessiond-transcript--fixed
  '(read-only t front-sticky (read-only) rear-nonsticky t)
  "Text properties of text that people cannot change.")

(defvar-local sessiond-transcript--start nil "Where the first message begins.")
(defvar-local sessiond-transcript--end nil "Where the last message ends.")
(defvar-local sessiond-transcript--seqs nil "The seq of each message shown, by id.")
(defvar-local sessiond-transcript--more nil
  "Whether the session has messages older than those shown.")

(defmacro sessiond-transcript--edit (&rest body)
  "Run BODY, an edit before the text that people type."
  (declare (indent 0) (debug t))
  (let ((size (gensym "size")))
    `(let ((,size (buffer-size)))
       (prog1 (let ((inhibit-read-only t)
                    (buffer-undo-list t))
                (save-excursion ,@body))
         (sessiond-transcript--shift-undo (- (buffer-size) ,size))))))

(defun sessiond-transcript--shift-undo (delta)
  "Shift all positions in the undo list by DELTA characters."
  (unless (or (zerop delta) (not (listp buffer-undo-list)))
    (setq buffer-undo-list
          (mapcar (lambda (entry) (sessiond-transcript--shifted entry delta))
                  buffer-undo-list))))

(defun sessiond-transcript--shifted (entry delta)
  "ENTRY of an undo list, with its positions shifted by DELTA characters."
  (pcase entry
    ((pred integerp) (+ entry delta))
    (`(,(and beg (pred integerp)) . ,(and end (pred integerp)))
     (cons (+ beg delta) (+ end delta)))
    (`(,(and text (pred stringp)) . ,(and at (pred integerp)))
     (cons text (if (< at 0) (- at delta) (+ at delta))))
    (`(nil ,property ,value ,beg . ,end)
     `(nil ,property ,value ,(+ beg delta) . ,(+ end delta)))
    (`(apply ,(and grown (pred integerp)) ,beg ,end . ,rest)
     `(apply ,grown ,(+ beg delta) ,(+ end delta) . ,rest))
    (_ entry)))


;;; How a message looks

(defun sessiond-transcript--face (role)
  "The face for the heading of a message of ROLE."
  (pcase role
    ("user" 'sessiond-user)
    ("assistant" 'sessiond-assistant)
    (_ 'sessiond-other)))

(defconst sessiond-transcript--marks
  '((:injected . "injected by the tool") (:sidechain . "sidechain")
    (:branch . "other branch") (:rewound . "taken back")
    (:compacted . "no longer in the tool's history")
    (:shortened . "shortened in the tool's history")
    (:superseded . "an earlier form") (:isError . "failed"))
  "What metadata tells a reader of a message, in the words of exports.")

(defun sessiond-transcript--marks-of (message)
  "Join what a reader should know about MESSAGE."
  (let ((metadata (plist-get message :metadata)))
    (mapconcat #'cdr
               (cl-remove-if-not (lambda (mark) (eq (plist-get metadata (car mark)) t))
                                 sessiond-transcript--marks)
               ", ")))

(defun sessiond-transcript--heading (role author timestamp status &optional marks)
  "The heading of a message of ROLE by AUTHOR with TIMESTAMP and STATUS.
MARKS is as `sessiond-transcript--marks-of' returns it."
  (concat (propertize (concat sessiond-transcript-mark (sessiond-clean role)
                              (and (stringp author) (not (string-empty-p author))
                                   (format " (%s)" (sessiond-clean author))))
                      'face (sessiond-transcript--face role))
          (propertize (concat "  " (sessiond-local-time timestamp)
                              (pcase status
                                ((or 'nil "done") "")
                                ("streaming" "  …")
                                (_ (format "  [%s]" (sessiond-clean status))))
                              (if (member marks '(nil "")) "" (format "  [%s]" marks)))
                      'face 'sessiond-detail)
          "\n"))

(defconst sessiond-transcript--lines 8
  "So many lines of a tool's output are shown while it is folded.")

(defconst sessiond-transcript--columns 200
  "So many characters of a call's line are shown while it is folded.")

(defun sessiond-transcript--folded (text shown)
  "TEXT, of which only the first SHOWN characters are seen until it is unfolded.
The rest is there for everything that reads the buffer."
  (if (>= (+ shown 40) (length text))
      text
    (concat (substring text 0 shown)
            (propertize (substring text shown)
                        'sessiond-fold t 'invisible 'sessiond-fold))))

(defun sessiond-transcript--first-lines (text)
  "The number of characters that the first lines of TEXT have."
  (let ((end 0))
    (dotimes (_ sessiond-transcript--lines)
      (when end
        (setq end (string-search "\n" text (if (zerop end) 0 (1+ end))))))
    (or end (length text))))

(defun sessiond-transcript-unfold (position &optional toggle)
  "Unfold the message at POSITION.  With TOGGLE fold it, if it is unfolded."
  (when-let* ((id (get-text-property position 'sessiond-id))
              (bounds (sessiond-transcript--find id)))
    (let* ((first (text-property-any (car bounds) (cdr bounds) 'sessiond-fold t))
           (fold (and toggle first (not (get-text-property first 'invisible))))
           (at first))
      (with-silent-modifications
        (while at
          (let ((end (next-single-property-change at 'sessiond-fold nil (cdr bounds))))
            (put-text-property at end 'invisible (and fold 'sessiond-fold))
            (setq at (text-property-any end (cdr bounds) 'sessiond-fold t))))))))

(defun sessiond-transcript--unfold-found ()
  "Unfold the message that a search in the buffer has ended in."
  (when (get-text-property (point) 'sessiond-fold)
    (sessiond-transcript-unfold (point))))

(defvar-local sessiond-transcript--found nil "Overlays on the words that a search found.")

(defun sessiond-transcript-mark-found (words seq)
  "Mark WORDS, a list of strings, in the message SEQ, and nowhere else."
  (mapc #'delete-overlay sessiond-transcript--found)
  (setq sessiond-transcript--found nil)
  (when-let* ((words (remove "" words))
              (position (sessiond-transcript-position seq))
              (end (cdr (sessiond-transcript--find
                         (get-text-property position 'sessiond-id)))))
    (save-excursion
      (goto-char position)
      (let ((case-fold-search t))
        (while (re-search-forward (regexp-opt words) end t)
          (let ((overlay (make-overlay (match-beginning 0) (match-end 0))))
            (overlay-put overlay 'face 'match)
            (push overlay sessiond-transcript--found)))))))

(defun sessiond-transcript--thinking (message)
  "The thinking of MESSAGE, before its content; empty without any."
  (let ((thinking (plist-get message :thinking)))
    (if (and (stringp thinking) (not (string-empty-p thinking)))
        (propertize (format "(thinking) %s\n" (string-trim thinking))
                    'face 'sessiond-detail)
      "")))

(defun sessiond-transcript--tail (message)
  "What stands below the content of MESSAGE."
  (concat
   "\n"
   (propertize
    (mapconcat (lambda (call)
                 (concat (sessiond-transcript--folded
                          (sessiond-call-text (plist-get call :name)
                                              (plist-get call :arguments))
                          sessiond-transcript--columns)
                         "\n"))
               (plist-get message :toolCalls) "")
    'face 'sessiond-detail)
   "\n"))

(defun sessiond-transcript--string (message)
  "MESSAGE as shown in the buffer."
  (let* ((status (plist-get message :status))
         (text (sessiond-content-text (plist-get message :content)))
         (string (concat
                  (propertize (sessiond-transcript--heading
                               (or (plist-get message :role) "?")
                               (plist-get message :author)
                               (plist-get message :timestamp) status
                               (sessiond-transcript--marks-of message))
                              'sessiond-part 'heading
                              'sessiond-role (or (plist-get message :role) "?")
                              'sessiond-author (plist-get message :author)
                              'sessiond-time (plist-get message :timestamp)
                              'sessiond-marks (sessiond-transcript--marks-of message))
                  (propertize (sessiond-transcript--thinking message)
                              'sessiond-part 'thinking)
                  (propertize (if (equal (plist-get message :role) "tool")
                                  (sessiond-transcript--folded
                                   text (sessiond-transcript--first-lines text))
                                text)
                              'sessiond-part 'text)
                  (propertize (sessiond-transcript--tail message)
                              'sessiond-part 'tail))))
    (add-text-properties
     0 (length string)
     `( sessiond-id ,(plist-get message :id) sessiond-seq ,(plist-get message :seq)
        ,@sessiond-transcript--fixed)
     string)
    string))


;;; Where messages are

(defun sessiond-transcript--before (position)
  "The beginning of the message that ends at POSITION, or nil."
  (when (> position sessiond-transcript--start)
    (previous-single-property-change position 'sessiond-id nil
                                     sessiond-transcript--start)))

(defun sessiond-transcript--find (id)
  "The bounds of message ID as a cons, or nil."
  (when (gethash id sessiond-transcript--seqs)
    (let ((end (marker-position sessiond-transcript--end))
          (found nil)
          beg)
      (while (and (not found) (setq beg (sessiond-transcript--before end)))
        (if (equal (get-text-property beg 'sessiond-id) id)
            (setq found (cons beg end))
          (setq end beg)))
      found)))

(defun sessiond-transcript--place (seq)
  "Where a message with SEQ belongs."
  (let ((place (marker-position sessiond-transcript--end))
        beg)
    (while (and (setq beg (sessiond-transcript--before place))
                (> (get-text-property beg 'sessiond-seq) seq))
      (setq place beg))
    place))

(defun sessiond-transcript-position (seq)
  "Where the message with SEQ begins, or the last one before it; nil if none."
  (sessiond-transcript--before (sessiond-transcript--place seq)))

(defun sessiond-transcript-oldest ()
  "The seq of the first message shown, or nil."
  (and (< sessiond-transcript--start sessiond-transcript--end)
       (get-text-property sessiond-transcript--start 'sessiond-seq)))

(defun sessiond-transcript-seq-at (position)
  "The seq of the message at POSITION, or nil."
  (get-text-property position 'sessiond-seq))

(defun sessiond-transcript--text-bounds (bounds)
  "The bounds of the content of the message at BOUNDS."
  (let* ((after (next-single-property-change (car bounds) 'sessiond-part nil (cdr bounds)))
         (beg (if (eq (get-text-property after 'sessiond-part) 'thinking)
                  (next-single-property-change after 'sessiond-part nil (cdr bounds))
                after))
         (end (if (eq (get-text-property beg 'sessiond-part) 'text)
                  (next-single-property-change beg 'sessiond-part nil (cdr bounds))
                beg)))
    (cons beg end)))


;;; Showing messages

(defun sessiond-transcript-setup ()
  "Make an empty transcript at point."
  (setq sessiond-transcript--start (point-marker)
        sessiond-transcript--end (copy-marker (point) t)
        sessiond-transcript--seqs (make-hash-table :test #'equal)
        sessiond-transcript--more nil)
  (add-to-invisibility-spec '(sessiond-fold . t))
  (setq-local search-invisible t)
  (add-hook 'isearch-mode-end-hook #'sessiond-transcript--unfold-found nil t))

(defun sessiond-transcript-reset (messages more)
  "Show MESSAGES, oldest first, and nothing else.
MORE is non-nil if there are older ones."
  (let ((seq (sessiond-transcript-seq-at (point))))
    (sessiond-transcript--edit
      (delete-region sessiond-transcript--start sessiond-transcript--end)
      (clrhash sessiond-transcript--seqs))
    (sessiond-transcript-prepend messages more)
    (when seq
      (goto-char (or (sessiond-transcript-position seq) sessiond-transcript--start)))))

(defun sessiond-transcript-prepend (messages more)
  "Show MESSAGES, oldest first, before those that are shown.
MORE is non-nil if there are still older ones."
  (let ((new (cl-remove-if (lambda (message)
                             (gethash (plist-get message :id)
                                      sessiond-transcript--seqs))
                           messages))
        ;; A page is thousands of strings, nearly all of which stay: collecting
        ;; garbage meanwhile would cost more than everything else.
        (gc-cons-threshold (max gc-cons-threshold 50000000)))
    (sessiond-transcript--edit
      (goto-char sessiond-transcript--start)
      (insert (mapconcat #'sessiond-transcript--string new ""))
      (seq-doseq (message new)
        (puthash (plist-get message :id) (plist-get message :seq)
                 sessiond-transcript--seqs))
      (sessiond-transcript--set-more more))))

(defun sessiond-transcript--set-more (more)
  "Show a button for older messages if MORE is non-nil."
  (setq sessiond-transcript--more more)
  (delete-region (point-min) sessiond-transcript--start)
  (when more
    (goto-char (point-min))
    (insert (apply #'propertize
                   (make-text-button "earlier messages" nil
                                     'action (lambda (_) (call-interactively
                                                          'sessiond-chat-earlier))
                                     'follow-link t)
                   sessiond-transcript--fixed)
            (apply #'propertize "\n\n" sessiond-transcript--fixed))
    (set-marker sessiond-transcript--start (point))))

(defun sessiond-transcript-add (message)
  "Show MESSAGE in its place, unless it is shown; return non-nil if it is new."
  (let ((id (plist-get message :id))
        (seq (plist-get message :seq)))
    (unless (or (gethash id sessiond-transcript--seqs)
                (and sessiond-transcript--more
                     (< seq (or (sessiond-transcript-oldest) 0))))
      (puthash id seq sessiond-transcript--seqs)
      (sessiond-transcript--edit
        (goto-char (sessiond-transcript--place seq))
        (insert (sessiond-transcript--string message)))
      t)))

(defun sessiond-transcript-replace (message)
  "Show MESSAGE as it is now, if it is shown."
  (when-let* ((bounds (sessiond-transcript--find (plist-get message :id))))
    (sessiond-transcript--edit
      (goto-char (car bounds))
      (delete-region (car bounds) (cdr bounds))
      (insert (sessiond-transcript--string message)))))

(defun sessiond-transcript-extend (id text offset)
  "Message ID has TEXT at OFFSET, or at its end if that is nil.
Returns `gap' if something is missing before it."
  (when-let* ((bounds (sessiond-transcript--find id)))
    (let* ((shown (sessiond-transcript--text-bounds bounds))
           (length (- (cdr shown) (car shown)))
           (known (- length (or offset length))))
      (cond
       ((< known 0) 'gap)
       ((< known (length text))
        (sessiond-transcript--edit
          (goto-char (cdr shown))
          (insert (apply #'propertize (substring text known)
                         'sessiond-part 'text
                         'sessiond-id (get-text-property (car bounds) 'sessiond-id)
                         'sessiond-seq (get-text-property (car bounds) 'sessiond-seq)
                         sessiond-transcript--fixed)))
        (sessiond-transcript-mark-as id "streaming")
        nil)))))

(defun sessiond-transcript-mark-as (id status)
  "Show that message ID has STATUS."
  (when-let* ((bounds (sessiond-transcript--find id)))
    (let* ((beg (car bounds))
           (end (next-single-property-change beg 'sessiond-part nil (cdr bounds)))
           (role (get-text-property beg 'sessiond-role))
           (author (get-text-property beg 'sessiond-author))
           (time (get-text-property beg 'sessiond-time))
           (marks (get-text-property beg 'sessiond-marks))
           (heading (sessiond-transcript--heading role author time status marks)))
      (unless (string= heading (buffer-substring-no-properties beg end))
        (sessiond-transcript--edit
          (let ((id (get-text-property beg 'sessiond-id))
                (seq (get-text-property beg 'sessiond-seq)))
            (goto-char end)
            ;; At the old heading's end, so that markers at the message's
            ;; beginning stay there.
            (insert (apply #'propertize heading 'sessiond-part 'heading
                           'sessiond-role role 'sessiond-author author
                           'sessiond-time time 'sessiond-marks marks
                           'sessiond-id id 'sessiond-seq seq
                           sessiond-transcript--fixed))
            (delete-region beg end)))))))

(defun sessiond-transcript-cut (after-seq)
  "Remove the messages with a seq above AFTER-SEQ."
  (sessiond-transcript--edit
    (delete-region (sessiond-transcript--place after-seq) sessiond-transcript--end))
  (maphash (lambda (id seq)
             (when (> seq after-seq)
               (remhash id sessiond-transcript--seqs)))
           sessiond-transcript--seqs))


;;; Moving about

(defun sessiond-transcript-next (count)
  "Move to the beginning of the COUNTth next message."
  (interactive "p")
  (if (< count 0)
      (sessiond-transcript-previous (- count))
    (dotimes (_ count)
      (goto-char (next-single-property-change (point) 'sessiond-id nil (point-max)))
      (when (and (null (get-text-property (point) 'sessiond-id))
                 (< (point) sessiond-transcript--end))
        (goto-char (next-single-property-change (point) 'sessiond-id nil (point-max)))))))

(defun sessiond-transcript-previous (count)
  "Move to the beginning of the COUNTth previous message."
  (interactive "p")
  (if (< count 0)
      (sessiond-transcript-next (- count))
    (dotimes (_ count)
      (goto-char (or (sessiond-transcript--before (min (point) sessiond-transcript--end))
                     (point-min))))))

(defun sessiond-transcript-index ()
  "An imenu index: one entry for each message."
  (let ((end (marker-position sessiond-transcript--end))
        (index nil)
        beg)
    (while (setq beg (sessiond-transcript--before end))
      (let ((text (sessiond-transcript--text-bounds (cons beg end))))
        (push (cons (format "%s: %s" (get-text-property beg 'sessiond-role)
                            (truncate-string-to-width
                             (sessiond-clean
                              (string-trim
                               (buffer-substring-no-properties
                                (car text) (min (cdr text) (+ (car text) 200)))))
                             60 nil nil t))
                    (copy-marker beg))
              index))
      (setq end beg))
    index))

(provide 'sessiond-transcript)
;;; sessiond-transcript.el ends here
