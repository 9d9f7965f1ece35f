;;; sessiond-autoloads.el --- What to load when  -*- lexical-binding: t; -*-

;;; Commentary:

;; For a checkout or an installed `sessiond' without package.el: loading this
;; file is all that a configuration needs.  package.el writes its own.

;;; Code:

(add-to-list 'load-path
             (directory-file-name
              (file-name-directory (or load-file-name buffer-file-name))))

(autoload 'sessiond-chat-jump "sessiond-chat" "Show the session of BOOKMARK.")
(autoload 'sessiond-new "sessiond-chat" "Start a new conversation." t)
(autoload 'sessiond-switch "sessiond-chat" "Show a session in a chat buffer." t)
(autoload 'sessiond-search "sessiond-search" "Find what was said in any session." t)
(autoload 'sessiond-name "sessiond-commands" "Give a session a name." t)
(autoload 'sessiond-tag "sessiond-commands" "Give a session tags." t)
(autoload 'sessiond-answer "sessiond-commands" "Answer what an agent asks." t)
(autoload 'sessiond-archive "sessiond-commands" "Archive a session." t)
(autoload 'sessiond-save "sessiond-commands" "Bring the file of a session up to date." t)
(autoload 'sessiond-fork "sessiond-commands" "Continue from here in a new session." t)
(autoload 'sessiond-resume "sessiond-commands" "Go on with a session in another tool." t)
(autoload 'sessiond-delete "sessiond-commands" "Move a session to the daemon's trash." t)
(autoload 'sessiond-send-region "sessiond-commands" "Send the region to a session." t)
(autoload 'sessiond-notes "sessiond-notes" "Show the notes of a session." t)
(autoload 'sessiond-note "sessiond-notes" "Write a note." t)
(autoload 'sessiond-gptel-mode "sessiond-gptel" "Keep this buffer's conversation with gptel in a session." t)

(provide 'sessiond-autoloads)
;; Local Variables:
;; no-byte-compile: t
;; no-update-autoloads: t
;; End:
;;; sessiond-autoloads.el ends here
