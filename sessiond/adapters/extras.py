"""The error to raise if an adapter's SDK is not installed."""

from __future__ import annotations

from sessiond.installation import add_command


def missing(extra: str, error: ImportError) -> ImportError:
    """The error to raise instead: it says which extra to install."""
    return ImportError(
        f"sessiond's adapter for {extra} needs a package that is not installed ({error}): {add_command(extra)}",
        name=error.name,
        path=error.path,
    )
