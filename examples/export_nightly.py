"""Writes every session that changed in the last days as Markdown into a folder. Meant for cron; running it twice does no harm.

python examples/export_nightly.py FOLDER [DAYS]
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sessiond.client import SessiondError, connect


def main() -> int:
    folder = Path(sys.argv[1]).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    since = datetime.now(UTC) - timedelta(days=float(sys.argv[2]) if len(sys.argv) > 2 else 1)
    failed = 0
    with connect(name="nightly export") as sessiond:
        for info in sessiond.sessions(since=since.isoformat(timespec="milliseconds").replace("+00:00", "Z")):
            path = folder / f"{info.session_id.replace('/', '_')}.md"
            try:
                sessiond.session(info.session_id).export("markdown", str(path), overwrite=True)
                print(path)
            except SessiondError as error:  # one damaged file does not keep the others from being written
                print(f"{info.session_id}: {error.message}", file=sys.stderr)
                failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
