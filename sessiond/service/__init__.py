"""The use cases, and the single owner of each session that they ask. Knows nothing about the wire, the journal or files."""
