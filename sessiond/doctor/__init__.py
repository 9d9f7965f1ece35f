"""The examination of an installation: the configuration, the folders, the daemon, the journal, every session file, the index.

A `Finding` says what was examined, what is wrong with it, what a person can do, and how it can be repaired here, if it can.
`examine` yields them in an order in which each comes after what it depends on: nothing is said about a store whose configuration
cannot be read, and a repair has been done before what it makes readable is examined.

Three rules hold for everything here. Nothing starts a daemon: what a running one knows is asked through the `Ask` that the
caller brings. Nothing changes a file before a finding's `mend` is called, and each mend keeps a copy of what it changes. And files
that a daemon may be writing at this moment are read as any other reader of them does; what only a daemon's absence makes safe to
read or to repair (the journal, the index) is examined under the data folder's lock, or when no daemon answers.
"""
