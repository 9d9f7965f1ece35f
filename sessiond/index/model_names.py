"""The names by which a model is asked for: its whole name, or a part of it, in lists as in searches."""

from __future__ import annotations

from sessiond.index.tokens import words


def names_model(model: str | None, asked: str) -> bool:
    """Return whether `asked` is a whole part of the model's name, or several consecutive ones: `opus`, `opus-4`."""
    if model is None:
        return False
    wanted = words(asked)
    return f" {' '.join(wanted)} " in f" {' '.join(words(model))} " if wanted else model == asked
