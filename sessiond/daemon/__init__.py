"""The process that owns the sessions: its life (process), its parts (parts), its listeners (listeners), its log."""
