"""agent-shell's transcripts."""

from __future__ import annotations

from pathlib import Path

import pytest
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
    """An unfinished output is kept as it stands. Half a header does not make a session yet, because it may lack the id."""
    stream = read(transcript(tmp_path, TEXT[: TEXT.index("````\n\nAn apple")]))
    assert told(stream.only)[-1] == ("tool", OUTPUT)
    stream = read(transcript(tmp_path / "call", TEXT[: TEXT.index("````\n## User")]))
    assert (stream.only[-1]["role"], calls(stream.only[-1])[0][1]) == ("assistant", "execute")
    assert list(read(transcript(tmp_path / "empty", TEXT[:40])).starts) == []


@pytest.mark.parametrize(
    "last",
    ["### To do", "## Apples", "### Things", "```\nls\n```", "## Users", "### Tool Calls", "## Agent's thoughts on it"],
)
def test_a_finished_transcript_without_a_last_newline_keeps_its_words(tmp_path: Path, last: str) -> None:
    """Only what certainly is the beginning of a heading is not there yet."""
    words = f"An apple.\n\n{last}"
    text = TEXT[: TEXT.index("An apple.")] + words
    assert told(read(transcript(tmp_path, text)).only)[-1] == ("assistant", words)


def test_the_output_at_the_end_of_a_file_is_whole(tmp_path: Path) -> None:
    """With an empty line before a fence that no newline follows, and with what would be half a heading elsewhere."""
    begun = TEXT[: TEXT.index("apple.txt\n````")]
    assert told(read(transcript(tmp_path, f"{begun}apple.txt\n\n````")).only)[-1] == ("tool", f"{OUTPUT}\n")
    assert told(read(transcript(tmp_path / "cut", f"{begun}apple.txt\n## U")).only)[-1] == ("tool", f"{OUTPUT}\n## U")


@pytest.mark.parametrize("rest", ["## User (2025-11-02 18:17:10)\n\nhi\n\n## Agent\n\nho\n\n---\n\nyes", "hi", "hi\n"])
def test_a_header_without_a_rule_loses_nothing(tmp_path: Path, rest: str) -> None:
    """What comes after it is said."""
    text = TEXT[: TEXT.index("---")] + rest
    stream = read(transcript(tmp_path, text))
    assert list(stream.starts) == ["s1"]
    assert told(stream.only) == (
        [("assistant", "hi")] if rest.startswith("hi") else [("user", "hi"), ("assistant", "ho\n\n---\n\nyes")]
    )


def test_another_page_is_not_recognised(tmp_path: Path) -> None:
    """The title must be at the beginning."""
    path = tmp_path / "x.md"
    path.write_text("# About\n\n# Agent Shell Transcript\n")
    assert recognised(path) is None


async def test_a_second_import_brings_nothing(tmp_path: Path) -> None:
    """Each message has the same id in every import."""
    await imported_twice(tmp_path / "home", transcript(tmp_path), 9)
