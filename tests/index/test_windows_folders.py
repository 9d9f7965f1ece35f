"""Folders of Windows: one folder, however it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiond.folders import folder_key
from sessiond.index.values import ListQuery
from tests.index.feeding import info, key, message, opened, search

WINDOWS = (
    ("d1", r"C:\Src\App"),
    ("d2", "c:/src/app/lib/"),
    ("d3", "/mnt/c/Src/app"),
    ("d4", "/mnt/C/src"),
    ("d5", r"\\?\C:\src\app"),
)
SHARES = (("s1", r"\\Host\Share\app"), ("s2", "//host/share/App/"), ("s3", r"\\?\UNC\HOST\share\app\lib"))
LINUX = (
    ("l1", r"\\wsl$\Ubuntu\home\me"),
    ("l2", r"\\wsl.localhost\Ubuntu\home\me\x"),
    ("l3", "/home/me"),
    ("l4", "/home/Me"),
)
ALL_NAMES = (*WINDOWS, *SHARES, *LINUX, ("o1", "/src/app"), ("o2", "/mnt/cc/src/app"), ("o3", "D:\\src"), ("o4", None))
WSL_DRIVE = r"\\wsl$\Ubuntu\mnt\c\src"


async def test_folders_of_windows(tmp_path: Path) -> None:
    """A folder of Windows is one folder however it is written; the session's own spelling stays."""
    async with opened(tmp_path) as index:
        for session_id, cwd in ALL_NAMES:
            index.put_info(info(session_id, cwd=cwd))
            index.add_messages(session_id, [message(1, "word", "user")])
        await index.settled()

        async def below(folder: str) -> str:
            return " ".join(sorted(key(hit)[0] for hit in (await search(index, f'word cwd:"{folder}"')).hits))

        async def exactly(folder: str) -> str:
            found = (await index.list(ListQuery(filter={"cwd": folder}))).items
            assert {one.session_id for one in found} <= {name for name, _ in ALL_NAMES}
            assert all(one.cwd == dict(ALL_NAMES)[one.session_id] for one in found)
            hits = (await search(index, "word", filter={"cwd": folder})).hits
            assert {key(hit)[0] for hit in hits} == {one.session_id for one in found}
            return " ".join(sorted(one.session_id for one in found))

        for folder in (
            r"C:\src\app",
            "c:/Src/App/",
            "/mnt/c/src/app",
            "/mnt/C/SRC/app/",
            r"\\?\c:\src\app",
            "/c:/src/app",
        ):
            assert await below(folder) == "d1 d2 d3 d5", folder
            assert await exactly(folder) == "d1 d3 d5", folder
        for folder in (r"c:\src", "/mnt/c/src", "C:/src/", WSL_DRIVE):
            assert (await below(folder), await exactly(folder)) == ("d1 d2 d3 d4 d5", "d4"), folder
        assert await below("C:") == "d1 d2 d3 d4 d5"
        for folder in (r"\\host\SHARE\app", "//Host/Share/App", r"\\?\UNC\host\share\app"):
            assert (await below(folder), await exactly(folder)) == ("s1 s2 s3", "s1 s2"), folder
        for folder in (
            "/home/me",
            r"\\wsl$\Ubuntu\home\me",
            r"\\wsl.localhost\Ubuntu\home\me",
            "//wsl$/Ubuntu/home/me",
        ):
            assert (await below(folder), await exactly(folder)) == ("l1 l2 l3 l4", "l1 l3"), folder
        assert await below(r"Src\App") == "d1 d2 d3 d5"
        assert await below("src/app") == "d1 d2 d3 d5 o1 o2"
        assert (await below("/src/app"), await exactly("/src/app")) == ("o1", "o1")
        assert (await exactly("/SRC/app"), await exactly("/home/Me")) == ("", "l4")


@pytest.mark.parametrize(
    "name",
    [
        "/src/App",
        "/mnt/",
        "/mnt/cc/A",
        "/c/Users/Me",
        "app",
        "C:",
        "C:app",
        "/a/C:/b",
        "//",
        "//host",
        "\\\\host",
        "~/App",
    ],
)
def test_what_is_not_a_folder_of_windows(name: str) -> None:
    """Its key is its own name, without a slash at the end."""
    assert folder_key(name) == ("/mnt/c" if name == "C:" else name.rstrip("/") or "/")


async def test_a_row_that_is_not_there_yet(tmp_path: Path) -> None:
    """A session that is fed while a list runs is compared in the same way."""
    async with opened(tmp_path) as index:
        index.put_info(info("a", cwd=r"C:\src"))
        found = await index.list(ListQuery(filter={"cwd": "/mnt/c/SRC"}))
        await index.settled()
        assert (await index.list(ListQuery(filter={"cwd": "/mnt/c/SRC"}))).items or found.items
