"""sessiond: one daemon that keeps every conversation with a model."""

__version__ = "0.1.0"
