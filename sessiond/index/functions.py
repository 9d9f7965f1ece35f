"""The functions that the SQL conditions of a filter may call. Each connection that is asked with a filter defines them, in each process."""

from __future__ import annotations

import sqlite3

from sessiond.folders import folder_key
from sessiond.index.model_names import names_model


def define_functions(db: sqlite3.Connection) -> None:
    db.create_function("folder_key", 1, key_of, deterministic=True)
    db.create_function("names_model", 2, is_of_model, deterministic=True)


def key_of(cwd: object) -> str | None:
    return folder_key(cwd) if isinstance(cwd, str) else None


def is_of_model(model: object, asked: object) -> bool:
    return isinstance(model, str) and names_model(model, str(asked))
