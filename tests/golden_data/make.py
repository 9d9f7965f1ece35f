"""Makes the golden data folder of this version: `python -m tests.golden_data.make`.

Run it once for each released version: a later version must open the folder of an earlier one.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

import sessiond
from tests.golden_data.life import STORES, config, displace, listing, live, place
from tests.home import Home

HERE = Path(__file__).parent


def main() -> int:
    target = HERE / f"v{sessiond.__version__}"
    if target.exists():
        print(f"{target} is there already", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="sd-") as name:
        path = Path(name) / "home"
        for store in STORES:
            (path / "stores" / store).mkdir(parents=True)
        (path / "stores" / "agents" / "transcripts").mkdir()
        home = Home(path, config())
        (path / "data" / "mounts").mkdir(parents=True, mode=0o700)
        (path / "data").chmod(0o700)
        place(path)
        with home:
            live(home.client())
            home.kill()
        twin = Path(name) / "twin"
        shutil.copytree(path, twin, ignore=shutil.ignore_patterns("*.sock"))
        displace(path)
        for part in ("data", "config", "stores"):
            shutil.copytree(
                path / part, target / part, ignore=shutil.ignore_patterns("lock", "endpoint", "token", "reserve")
            )
        for moved in (twin / "config" / "config.toml", *(twin / "data" / "mounts").glob("*.json")):
            moved.write_text(moved.read_text().replace(str(path), str(twin)))
        with Home(twin) as again:
            (target / "expected.json").write_text(
                json.dumps(listing(again.client()), indent=1, ensure_ascii=False) + "\n"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
