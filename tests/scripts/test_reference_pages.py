"""The pages that are written from the code are current."""

from __future__ import annotations

import pytest

from scripts import reference_pages
from sessiond.client import __all__ as public
from sessiond.config import SETTINGS


@pytest.mark.parametrize("name", reference_pages.pages())
def test_the_page_is_current(name: str) -> None:
    """`python -m scripts.reference_pages` would write the same."""
    assert (reference_pages.FOLDER / name).read_text() == reference_pages.pages()[name]


def test_nothing_is_left_out() -> None:
    """Every setting has its key, default and words; every public name of the client has a section."""
    pages = reference_pages.pages()
    for setting in SETTINGS.values():
        assert f"| `{setting.key}` |" in pages["configuration.md"]
    for name in public:
        assert f"\n## {name}\n" in pages["python.md"]
