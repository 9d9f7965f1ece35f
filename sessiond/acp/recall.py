"""Asks the store, by a process of its own (memory.py). The standard library only: an editor waits."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from sessiond.acp.acts import Recall, RecallResponse, parsed

LOG = "recorder.log"
_UNANSWERED = "sessiond could not look up what it has recorded; recorder.log in the folder `acp` of its data says why"


class Recaller:
    """`folder`: where spools are kept; if None, nothing is known."""

    def __init__(self, folder: str | None) -> None:
        self._folder = folder

    def ask(self, recall: Recall) -> RecallResponse:
        """Waits for what the store says."""
        if self._folder is None:
            return RecallResponse({}, [], "sessiond records nothing here")
        command = [sys.executable, "-X", "utf8", "-m", "sessiond.acp.memory", self._folder]
        asked = json.dumps(recall.job).encode() + b"\n" + b"".join(recall.lines)
        try:
            with open(os.path.join(self._folder, LOG), "ab", opener=private) as log:
                done = subprocess.run(  # noqa: S603  our own interpreter and our own module
                    command, input=asked, stdout=subprocess.PIPE, stderr=log, check=False
                )
        except OSError as error:
            return RecallResponse({}, [], f"{_UNANSWERED} ({error})")
        first, *lines = done.stdout.splitlines(keepends=True) or [b""]
        head = parsed(first)
        if done.returncode or head is None:
            return RecallResponse({}, [], _UNANSWERED)
        return RecallResponse(head, lines, head.get("problem"))


def private(path: str, flags: int) -> int:
    """An opener for files that only their owner reads."""
    return os.open(path, flags, 0o600)
