"""Backups: a tree that is copied while everything goes on, its manifest, and the proof that a copy is whole."""
