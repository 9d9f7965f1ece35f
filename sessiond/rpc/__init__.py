"""The wire: JSON-RPC envelopes, typed params and results, one connection's life, and what stock LSP clients get."""
