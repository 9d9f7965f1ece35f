"""Makes msgspec analyse struct types early."""

from __future__ import annotations

import msgspec


def ready(*types: object) -> None:
    """Call this when a module is loaded, with each type that it decodes by `type=` or converts to.

    msgspec analyses a struct type at its first use, and puts it into its cache before that is finished. A second thread that
    uses the type meanwhile reads uninitialised data: the process ends with a segmentation fault.
    """
    for one in types:
        msgspec.json.Decoder(one)
