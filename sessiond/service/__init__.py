"""The use cases, and the one owner of each session that they ask. Knows nothing of the wire, the journal or files."""
