"""Tries again what could not be indexed: its cause may be gone, and only a start of the daemon would notice."""

from __future__ import annotations

from collections.abc import Mapping

from sessiond.errors import SessiondError
from sessiond.model.values import split_wire_id
from sessiond.service.catalog import Catalog
from sessiond.store.port import Listed, Store


async def index_again(catalog: Catalog, stores: Mapping[str, Store]) -> dict[str, str | None]:
    """Each session of which something could not be found -> why that is still so; None: all of it is searchable now."""
    problems: dict[str, str | None] = {}
    for wire_id in catalog.incomplete():
        name, local_id = split_wire_id(wire_id)
        store = stores.get(name)
        if store is None:
            problems[wire_id] = "its store is not there"
            continue
        try:
            warnings = await catalog.reindex(store, [Listed(local_id, store.file_path(local_id), "")])
        except SessiondError as error:  # its store refuses, for example
            problems[wire_id] = error.message
        else:
            problems[wire_id] = catalog.failed.reason(wire_id)
            if warnings and await catalog.index.info(wire_id) is None:
                problems[wire_id] = warnings[0].message
    await catalog.searchable()
    return {wire_id: problem or catalog.index.why_left_out(wire_id) for wire_id, problem in problems.items()}
