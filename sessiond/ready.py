"""Has msgspec look at struct types in good time."""

from __future__ import annotations

from typing import Any

import msgspec


def ready(*types: Any) -> None:
    """To be called when a module is loaded, of each type that it decodes by `type=` or converts to.

    msgspec looks at a struct type at its first use, and puts it into its cache before it is through with that. A second thread that uses
    the type meanwhile reads what is not there yet: the process ends with a segmentation fault.
    """
    for one in types:
        msgspec.json.Decoder(one)
