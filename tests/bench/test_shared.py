"""That the benchmark of shared stores runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_benchmark_of_shared_stores_runs(tmp_path: Path) -> None:
    """`--smoke` measures each row on next to nothing and writes all of them into the page."""
    page = tmp_path / "performance.md"
    page.write_text("# Performance\n")
    command = [sys.executable, "-m", "tests.bench.bench_shared", "--smoke", "--write", str(page)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-4000:]
    rows = [line for line in page.read_text().splitlines() if line.startswith("| ")]
    for what in (
        "one client",
        "16 clients",
        "is told to an editor",
        "bytes on the hub",
        "catching up",
        "open a session",
    ):
        assert any(what in row for row in rows), (what, rows)
