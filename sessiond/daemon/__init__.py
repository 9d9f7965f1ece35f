"""The process that owns the sessions: its life (process), what it is made of (parts), who comes in (doors), its log."""
