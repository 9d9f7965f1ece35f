# Completes sessiond's commands, options and session ids. The code comes from the command, so it is always that of the
# installed version; fish reads this file at the first Tab.
sessiond completion fish | source
