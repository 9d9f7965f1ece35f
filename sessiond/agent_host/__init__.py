"""The daemon as a host of Microsoft's Agent Host Protocol (AHP): windows of VS Code list its sessions, and show them live.

    shapes     names and JSON of one version of the protocol; nothing else knows them
    turns      messages -> turns, pure
    actions    two states of a conversation -> the actions between them, pure
    numbers    which number of the protocol stands for which seq of a session, kept over restarts
    hosted     a session that some window has open
    window     a connection
    host       all of them, and the list

The protocol numbers what a host says with one counter, and expects of a window that comes back that it says the last number it
saw. A host that can say what came since is rare: it has to know this over its own restarts. Ours knows it from the session: a
number leads to a state that the session had, and everything after it is in the session.
"""
