"""The style sheet of the HTML export: light and dark by the reader's preference, and plain on paper."""

from __future__ import annotations

from functools import cache

from pygments.formatters import HtmlFormatter

_LAYOUT = """
:root { --back: #ffffff; --text: #1f2328; --soft: #59636e; --line: #d1d9e0; --panel: #f6f8fa; --link: #0550ae; --user: #ddf4ff; }
@media (prefers-color-scheme: dark) {
:root { --back: #0d1117; --text: #e6edf3; --soft: #9198a1; --line: #3d444d; --panel: #151b23; --link: #79c0ff; --user: #10233d; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 52rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.6rem; overflow-wrap: anywhere; }
h2 { font-size: 0.95rem; margin: 0 0 0.5rem; }
a { color: var(--link); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.15rem 1rem; color: var(--soft); font-size: 0.9rem; }
dd { margin: 0; overflow-wrap: anywhere; }
time, .mark { color: var(--soft); font-weight: normal; font-size: 0.85rem; }
.mark { border: 1px solid var(--line); border-radius: 1em; padding: 0 0.5em; }
.turn, .note, .state { border-top: 1px solid var(--line); padding: 1rem 0; }
.turn.user > .prose { background: var(--user); border-radius: 0.5rem; padding: 0.1rem 0.8rem; }
.turn.quiet { opacity: 0.75; }
.prose { overflow-wrap: anywhere; }
.prose h1, .prose h2, .prose h3 { font-size: 1.1rem; margin: 1rem 0 0.5rem; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 0.4rem; padding: 0.7rem; overflow-x: auto; }
pre, code { font: 0.85rem/1.45 ui-monospace, monospace; }
.prose > pre, details > pre { white-space: pre-wrap; overflow-wrap: anywhere; }
details { margin: 0.5rem 0; }
summary { cursor: pointer; color: var(--soft); }
img { max-width: 100%; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { border: 1px solid var(--line); padding: 0.25rem 0.6rem; }
.left { text-align: left; } .right { text-align: right; } .center { text-align: center; }
blockquote { margin: 0.5rem 0; padding-left: 0.8rem; border-left: 3px solid var(--line); color: var(--soft); }
@media print {
body { font-size: 11pt; } main { max-width: none; padding: 0; }
pre { white-space: pre-wrap; } h2 { break-after: avoid; } .turn.user > .prose { border: 1px solid var(--line); }
}
"""


@cache
def css() -> str:
    """The style sheet: layout, and the colours of code in both schemes."""
    light = _colours("default")
    dark = _colours("github-dark")
    return f"{_LAYOUT}{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n"


def _colours(style: str) -> str:
    rules = HtmlFormatter(style=style).get_style_defs(".code").splitlines()  # type: ignore[no-untyped-call]
    # The page sets the background.
    return "\n".join(
        rule for rule in rules if rule.startswith(".code .") and "linenos" not in rule and "hll" not in rule
    )
