;;; sessiond-transcript-test.el --- The transcript, without a daemon  -*- lexical-binding: t; -*-

;;; Code:

(require 'ert)
(require 'sessiond-transcript)

(defmacro sessiond-transcript-test-with (&rest body)
  "Run BODY in a buffer with an empty transcript and some input below it."
  `(with-temp-buffer
     (sessiond-transcript-setup)
     (set-marker-insertion-type sessiond-transcript--end nil)
     (insert "input")
     (set-marker-insertion-type sessiond-transcript--end t)
     ,@body))

(defun sessiond-transcript-test-message (seq text &rest more)
  "A message with SEQ, TEXT and MORE."
  `(:id ,(format "m%s" seq) :seq ,seq :role "user" :content ,text ,@more))

(defun sessiond-transcript-test-texts ()
  "The contents that are shown, in order."
  (let ((at (point-min)) texts)
    (while (setq at (text-property-any at (point-max) 'sessiond-part 'text))
      (let ((end (next-single-property-change at 'sessiond-part nil (point-max))))
        (push (buffer-substring-no-properties at end) texts)
        (setq at end)))
    (nreverse texts)))

(ert-deftest sessiond-transcript-order ()
  "Messages stand in the order of their seqs, each once, however they come."
  (sessiond-transcript-test-with
   (dolist (seq '(2 4 3 1 4 2))
     (sessiond-transcript-add
      (sessiond-transcript-test-message seq (format "text %s" seq))))
   (should (equal (sessiond-transcript-test-texts)
                  '("text 1" "text 2" "text 3" "text 4")))
   (should (string-suffix-p "input" (buffer-string)))))

(ert-deftest sessiond-transcript-author ()
  "A heading says who of several people wrote, also once the status has changed."
  (sessiond-transcript-test-with
   (sessiond-transcript-add
    (sessiond-transcript-test-message 1 "hi" :author "Ada" :status "streaming"))
   (sessiond-transcript-add (sessiond-transcript-test-message 2 "alone" :author '(:any 1)))
   (should (string-search "user (Ada)" (buffer-string)))
   (sessiond-transcript-mark-as "m1" "interrupted")
   (should (string-match-p "user (Ada) .*\\[interrupted\\]" (buffer-string)))
   (should (= 1 (how-many "user (" (point-min) (point-max))))))

(ert-deftest sessiond-transcript-extend-repeated ()
  "Text of a streamed message that is told twice, or in part, is shown once."
  (sessiond-transcript-test-with
   (sessiond-transcript-add
    (sessiond-transcript-test-message 1 "日本" :status "streaming"))
   (should-not (sessiond-transcript-extend "m1" "語😀" 2))
   (should-not (sessiond-transcript-extend "m1" "語😀" 2))
   (should-not (sessiond-transcript-extend "m1" "😀!" 3))
   (should (equal (sessiond-transcript-test-texts) '("日本語😀!")))
   (should (eq (sessiond-transcript-extend "m1" "later" 9) 'gap))
   (should-not (sessiond-transcript-extend "unknown" "x" 0))
   (should (equal (sessiond-transcript-test-texts) '("日本語😀!")))))

(ert-deftest sessiond-transcript-extend-empty ()
  "A streamed message may begin with nothing."
  (sessiond-transcript-test-with
   (sessiond-transcript-add (sessiond-transcript-test-message 1 "" :status "streaming"))
   (sessiond-transcript-add (sessiond-transcript-test-message 2 "next"))
   (sessiond-transcript-extend "m1" "a" 0)
   (sessiond-transcript-extend "m1" "b" 1)
   (should (equal (sessiond-transcript-test-texts) '("ab" "next")))
   (should (string-match-p "…" (buffer-string)))
   (sessiond-transcript-mark-as "m1" "done")
   (should-not (string-match-p "…" (buffer-string)))
   (should (equal (sessiond-transcript-test-texts) '("ab" "next")))))

(ert-deftest sessiond-transcript-cut ()
  "Cutting takes out what is newer, and it can come back."
  (sessiond-transcript-test-with
   (dolist (seq '(1 2 3))
     (sessiond-transcript-add (sessiond-transcript-test-message seq (format "%s" seq))))
   (sessiond-transcript-cut 1)
   (should (equal (sessiond-transcript-test-texts) '("1")))
   (sessiond-transcript-add (sessiond-transcript-test-message 3 "3"))
   (should (equal (sessiond-transcript-test-texts) '("1" "3")))))

(ert-deftest sessiond-transcript-undo ()
  "What was typed can be undone after messages came in above it."
  (sessiond-transcript-test-with
   (buffer-enable-undo)
   (goto-char (point-max))
   (undo-boundary)
   (insert " typed")
   (undo-boundary)
   (delete-region (- (point) 2) (point))
   (sessiond-transcript-add (sessiond-transcript-test-message 1 "above"))
   (should (string-suffix-p "input typ" (buffer-string)))
   (setq last-command nil)
   (undo-start)
   (undo-more 1)
   (should (string-suffix-p "input typed" (buffer-string)))
   (undo-more 1)
   (should (string-suffix-p "input" (buffer-string)))
   (should (equal (sessiond-transcript-test-texts) '("above")))))

(ert-deftest sessiond-transcript-read-only ()
  "Nobody can type into the transcript."
  (sessiond-transcript-test-with
   (sessiond-transcript-add (sessiond-transcript-test-message 1 "fixed"))
   (goto-char (point-min))
   (should-error (insert "x") :type 'text-read-only)
   (search-forward "fix")
   (should-error (insert "x") :type 'text-read-only)
   (goto-char (point-max))
   (insert "fine")))

(ert-deftest sessiond-transcript-blocks ()
  "Content blocks, tool calls and thinking are shown as text."
  (sessiond-transcript-test-with
   (sessiond-transcript-add
    (sessiond-transcript-test-message
     1 [(:type "text" :text "one") (:type "image" :source (:data "…"))]
     :thinking "hm"
     :toolCalls [(:id "c" :name "grep" :arguments (:pattern "x" :all :json-false))]))
   (dolist (text '("one\n[image]" "(thinking) hm" "→ grep {\"pattern\":\"x\",\"all\":false}"))
     (should (string-match-p (regexp-quote text) (buffer-string))))))

(ert-deftest sessiond-transcript-moving ()
  "Moving by message, imenu and outline go by headings, not by what they say."
  (sessiond-transcript-test-with
   (sessiond-transcript-prepend
    (vector (sessiond-transcript-test-message 1 "first\n* no heading")
            (sessiond-transcript-test-message 2 "second"))
    t)
   (should (equal (mapcar #'car (sessiond-transcript-index))
                  '("user: first * no heading" "user: second")))
   (goto-char (point-min))
   (sessiond-transcript-next 1)
   (should (eql (sessiond-transcript-seq-at (point)) 1))
   (sessiond-transcript-next 1)
   (should (eql (sessiond-transcript-seq-at (point)) 2))
   (sessiond-transcript-previous 1)
   (should (eql (sessiond-transcript-seq-at (point)) 1))))

(ert-deftest sessiond-titles ()
  "A title is the name on one line, or part of the id; the mode line shows it literally."
  (should (equal (sessiond-title '(:name "a\nb\u202ec" :sessionId "x")) "a b c"))
  (should (equal (sessiond-title '(:name nil :sessionId "session-20260111-143022"))
                 "20260111-143022"))
  (should (equal (sessiond-title '(:name " " :sessionId "lisp/session-1")) "lisp/1"))
  (should (equal (sessiond-mode-line "100%") "[100%%:?] offline")))

(ert-deftest sessiond-transcript-marks ()
  "A heading says what a reader should know, and still does when the message has ended."
  (with-temp-buffer
    (sessiond-transcript-setup)
    (sessiond-transcript-add
     '( :id "a" :seq 1 :role "user" :content "x" :status "streaming"
        :metadata (:injected t :branch :false :superseded t)))
    (should (string-match-p "  …  \\[injected by the tool, an earlier form]\n" (buffer-string)))
    (sessiond-transcript-mark-as "a" "done")
    (should (string-match-p "[^…]  \\[injected by the tool, an earlier form]\n"
                            (buffer-string)))))

(ert-deftest sessiond-transcript-folds ()
  "Long calls and outputs are folded; all of them is in the buffer, and seen after unfolding."
  (with-temp-buffer
    (sessiond-transcript-setup)
    (let ((lines (mapconcat (lambda (n) (format "line %d" n)) (number-sequence 1 30) "\n")))
      (sessiond-transcript-reset
       `((:id "a" :seq 1 :role "assistant" :timestamp "" :content "said"
          :toolCalls [(:id "c" :name "write" :arguments ,(concat (make-string 300 ?x) "end"))])
         (:id "b" :seq 2 :role "tool" :timestamp "" :content ,lines)
         (:id "c" :seq 3 :role "user" :timestamp "" :content ,lines))
       nil))
    (let ((seen (lambda (text nth)
                  (goto-char (point-min))
                  (search-forward text nil nil nth)
                  (not (invisible-p (1- (point)))))))
      (should (funcall seen "said" 1))
      (should-not (funcall seen "end" 1))
      (should (funcall seen "line 8" 1))
      (should-not (funcall seen "line 30" 1))
      (should (funcall seen "line 30" 2))
      (sessiond-transcript-unfold (sessiond-transcript-position 2))
      (should (funcall seen "line 30" 1))
      (should-not (funcall seen "end" 1))
      (sessiond-transcript-unfold (sessiond-transcript-position 2) t)
      (should-not (funcall seen "line 30" 1))
      ;; What a search in the buffer ends in is unfolded.
      (funcall seen "end" 1)
      (backward-char)
      (run-hooks 'isearch-mode-end-hook)
      (should (funcall seen "end" 1)))))

(provide 'sessiond-transcript-test)
;;; sessiond-transcript-test.el ends here
