"""The model that turns text into vectors: WordLlama's, whose weights and tokenizer are inside its package. Only the worker
process imports this (`semantic_worker.py`), because it costs a second and 100 MB.

Vectors are 256 numbers of 8 bits, of unit length before rounding, minus what all texts have in common: otherwise every text
would be near every other (the mean of ordinary texts has length 0.44).
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import wordllama

DIMENSIONS = 256
NAME = "wordllama-l2_supercat-256/1"
"""Names model and preparation: vectors of another name mean something else."""

Vectors: TypeAlias = npt.NDArray[np.int8]
_Floats: TypeAlias = npt.NDArray[np.float32]
_BATCH = 32

_ORDINARY = """\
The quick answer is that it depends on what you want to do with it.
I have looked at the file and there are two things that should be changed.
def main(args): return [x for x in args if x is not None]
Can you explain why this does not work as I expected?
Error: expected a string, got None (line 42 of the module)
Thank you, that is what I was looking for.
1. First open the settings. 2. Then choose the second tab. 3. Save and close.
const result = await fetch(url, { method: "POST", body: JSON.stringify(data) });
The tests pass now; I will write a short summary of what was done.
これは何ですか。設定を変更してから、もう一度試してください。
Please write it in plain language, with an example for each point.
{"name": "value", "items": [1, 2, 3], "enabled": true}
In my opinion the second option is better because it is simpler and costs less.
We went there last week with the family and stayed for three days.
$ ls -la /usr/local/bin && grep -rn "TODO" src/ | head -20
SELECT id, name FROM users WHERE created_at > '2024-01-01' ORDER BY name;
It is not clear to me what the function should return when the list is empty.
Let me know if you would like me to go on with the next step.
The meeting was moved to Thursday, so we have time until then."""
"""Texts about nothing in particular: their mean is what all texts share. Part of the model: a change requires a new NAME."""


class Model:
    """Loads the model in about half a second. FileNotFoundError if the package lacks its files: nothing is downloaded."""

    def __init__(self) -> None:
        folder = Path(wordllama.__file__).parent  # by default it looks for the tokenizer in the wrong folder
        self._model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
        self._common = self._raw(_ORDINARY.splitlines()).mean(axis=0)

    def embed(self, texts: list[str]) -> Vectors:
        """One vector for each text; all zeros for an empty text."""
        floats = self._raw(texts) - self._common
        most = np.abs(floats).max(axis=1, keepdims=True)
        scaled: _Floats = floats * np.divide(127.0, most, out=np.zeros_like(most), where=most > 0)
        return np.rint(scaled).astype(np.int8)

    def _raw(self, texts: list[str]) -> _Floats:
        # Texts of similar length need little padding.
        order = sorted(range(len(texts)), key=lambda n: len(texts[n]))
        found: _Floats = self._model.embed([texts[n] for n in order], batch_size=_BATCH)
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        found = np.divide(found, lengths, out=np.zeros_like(found), where=lengths > 0)
        out = np.empty_like(found)
        out[order] = found
        return out
