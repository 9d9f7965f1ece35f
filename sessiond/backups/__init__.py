"""Backups: a tree that is copied while the daemon keeps working, its manifest, and the check that a copy is complete."""
