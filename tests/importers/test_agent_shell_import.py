"""agent-shell's transcripts."""

from __future__ import annotations

from pathlib import Path

from collected import read, recognised

from sessiond.importers.draft import local_moment
from tests.importers.tools import calls, imported_twice, told

TEXT = """# Agent Shell Transcript

**Agent:** Claude
**Started:** 2025-11-02 18:17:00
**Working Directory:** /work/
**Session ID:** s1
**Model:** claude-x

---

## User (2025-11-02 18:17:10)

What is here?


## Agent's Thoughts (2025-11-02 18:17:20)

hm

## Agent (2025-11-02 18:17:30)

Let me **look**.


### Tool Call [completed]: ls

**Tool:** execute
**Timestamp:** 2025-11-02 18:17:41
**Description:** Look around
**Command:** ls
**Parameters:**
path: .
depth: 1

````
## User (2025-11-02 18:17:10)
```
apple.txt
````

An apple.

### Tool Call [failed]: rm

**Timestamp:** 2025-11-02 18:17:42

```
denied
```

## User (2025-11-02 18:18:00)

> Thanks
>
> a lot
"""
OUTPUT = "## User (2025-11-02 18:17:10)\n```\napple.txt"


def transcript(folder: Path, text: str = TEXT) -> Path:
    path = folder / ".agent-shell" / "transcripts" / "2025-11-02-18-17-00.md"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def test_a_transcript(tmp_path: Path) -> None:
    """A heading begins a message, unless it is in the output of a tool; a call has the fields written about it."""
    path = transcript(tmp_path)
    assert recognised(path) == "agent-shell"
    stream = read(path)
    assert told(stream.only) == [
        ("user", "What is here?"),
        ("assistant", ""),
        ("assistant", "Let me **look**."),
        ("assistant", ""),
        ("tool", OUTPUT),
        ("assistant", "An apple."),
        ("assistant", ""),
        ("tool", "denied"),
        ("user", "Thanks\n\na lot"),
    ]
    assert stream.only[1]["thinking"] == "hm"
    called, result = stream.only[3:5]
    asked = {"title": "ls", "description": "Look around", "command": "ls", "parameters": "path: .\ndepth: 1"}
    assert calls(called) == [(result["toolCallId"], "execute", asked)]
    assert called["timestamp"] == local_moment("2025-11-02 18:17:41")
    assert stream.only[7]["metadata"] == {"status": "failed", "isError": True}
    info = stream.only_info
    assert (info["cwd"], info["model"], info["metadata"]["agent"]) == ("/work/", "claude-x", "Claude")
    assert (list(stream.starts), info["createdAt"]) == (["s1"], local_moment("2025-11-02 18:17:00"))


def test_a_cut_transcript_gives_what_is_there(tmp_path: Path) -> None:
    """An output without its end is kept as far as it goes; a header alone is an empty session, named after the file."""
    stream = read(transcript(tmp_path, TEXT[: TEXT.index("````\n\nAn apple")]))
    assert told(stream.only)[-1] == ("tool", OUTPUT + "\n")
    stream = read(transcript(tmp_path / "call", TEXT[: TEXT.index("````\n## User")]))
    assert (stream.only[-1]["role"], calls(stream.only[-1])[0][1]) == ("assistant", "execute")
    empty = read(transcript(tmp_path / "empty", TEXT[:40]))
    assert (empty.only, list(empty.starts)) == ([], ["2025-11-02-18-17-00"])


def test_another_page_is_not_recognised(tmp_path: Path) -> None:
    """The title must be at the beginning."""
    path = tmp_path / "x.md"
    path.write_text("# About\n\n# Agent Shell Transcript\n")
    assert recognised(path) is None


async def test_a_second_import_brings_nothing(tmp_path: Path) -> None:
    """Each message has the same id in every import."""
    await imported_twice(tmp_path / "home", transcript(tmp_path), 9)
