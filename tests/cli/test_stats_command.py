"""`sessiond stats`: tables, bars, costs, and what scripts get."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from tests.shell import Shell, on_terminal, wait_until

DAYS = ["2026-03-07", "2026-03-08", "2026-03-09"]
PRICE = {
    "input_cost_per_token": 1e-3,
    "output_cost_per_token": 2e-3,
    "cache_read_input_token_cost": 1e-4,
    "cache_creation_input_token_cost": 5e-3,
}


def message(day: str, **tokens: Any) -> dict[str, Any]:
    at = f"{day}T12:00:00.000Z"
    return {"role": "assistant", "content": "x", "timestamp": at, "metadata": {"tokens": tokens}}


@pytest.fixture
def used(shell: Shell) -> Shell:
    """Two sessions: 1,110 tokens of one model with costs, 5,000 of another without."""
    with shell.client() as client:
        first = [message(day, model="m-a", input=10**n, cost=0.5) for n, day in enumerate(DAYS, 1)]
        second = message(DAYS[2], model="m-b", output=2000, cacheRead=3000)
        client.call("session/new", {"sessionId": "a", "name": "One", "messages": first, "cwd": "/w"})
        codex = {"source": {"tool": "codex"}}
        client.call("session/new", {"sessionId": "b", "messages": [second], "metadata": codex})
        wait_until(lambda: client.usage().total.requests == 4)
    return shell


def test_scripts_get_lines_with_tabs(used: Shell) -> None:
    done = used("stats", "--time-zone", "UTC")
    assert (done.code, done.err) == (0, "")
    assert [line.split("\t") for line in done.out.splitlines()] == [
        ["2026-03-07", "1", "1", "10", "0", "0", "0", "0", "0.500000", ""],
        ["2026-03-08", "1", "1", "100", "0", "0", "0", "0", "0.500000", ""],
        ["2026-03-09", "2", "2", "1000", "0", "3000", "2000", "0", "", ""],
    ]
    assert used("stats", "--by", "session").out.splitlines()[1].startswith("a\t1\t3\t1110\t")
    assert [line.split("\t")[0] for line in used("stats", "--by", "tool").out.splitlines()] == ["codex", "sessiond"]


def test_json_is_the_daemon_s_result(used: Shell) -> None:
    found = used("stats", "--by", "model", "--json").json
    assert [row["key"] for row in found["rows"]] == ["m-b", "m-a"]
    assert found["total"]["cost"] == 1.5
    with used.client() as client:
        assert found == client.call("session/usage", {"by": "model", "limit": 10_000}, again=True)


def test_a_terminal_gets_a_table_and_bars(used: Shell) -> None:
    """On lines that fit, whatever the width; the longest bar is the largest row's."""
    code, shown = on_terminal(used, "stats", "--time-zone", "UTC", COLUMNS="120", NO_COLOR="1")
    heading, *rows, total, zone, remark = shown.splitlines()
    assert code == 0
    assert heading.split() == ["day", "input", "cache", "read", "output", "tokens", "cost", "sessions"]
    assert [row.split()[0] for row in rows] == DAYS
    bars = [row.count("█") for row in rows]
    assert bars[0] == bars[1] == 0 < bars[2]
    assert rows[0].endswith("▏")
    assert total.split() == ["total", "1,110", "3,000", "2,000", "6,110", "$1.50+", "2"]
    assert (zone, remark) == ("days in UTC", "+ 1 request without a cost; see --prices")
    for width in (120, 80, 50):
        lines = on_terminal(used, "stats", COLUMNS=str(width), NO_COLOR="1")[1].splitlines()
        assert all(cell_len(line) <= width for line in lines[:5]), (width, lines)
    assert "\x1b[" in on_terminal(used, "stats")[1]
    assert "\x1b[" not in shown


def test_few_rows_unless_asked_for_more(used: Shell) -> None:
    shown = on_terminal(used, "stats", "-n", "1", NO_COLOR="1")[1]
    assert "2026-03-09" in shown and "2026-03-08" not in shown
    assert "2 rows more; --all shows them, and the total includes them" in shown
    assert "2026-03-07" in on_terminal(used, "stats", "-n", "1", "--all")[1]


def test_prices_are_the_user_s(used: Shell, tmp_path: Path) -> None:
    """The file's models are computed, the others keep what their tools said; with a provider in front too."""
    file = tmp_path / "prices.json"
    file.write_text(json.dumps({"vendor/m-b": PRICE, "sample_spec": {}, "m-x": {"input_cost_per_token": "1"}}))
    found = used("stats", "--by", "model", "--prices", str(file), "--json").json
    costs = {row["key"]: (row["total"]["cost"], row["total"]["priced"]) for row in found["rows"]}
    assert costs == {"m-b": (pytest.approx(2000 * 2e-3 + 3000 * 1e-4), 1), "m-a": (1.5, 3)}
    assert found["total"]["cost"] == pytest.approx(5.8)
    file.write_text(json.dumps({"m-a": PRICE}))
    done = used("stats", "--by", "model", "--prices", str(file))
    assert done.err == f"sessiond: {file} has no price for m-b\n"
    assert done.out.splitlines()[1].split("\t")[8] == "1.110000"


def test_two_prices_for_one_model_are_none(used: Shell, tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    file.write_text(json.dumps({"x/m-b": PRICE, "y/m-b": {**PRICE, "output_cost_per_token": 1}, "m-a": PRICE}))
    assert used("stats", "--prices", str(file)).err == f"sessiond: {file} has no price for m-b\n"


@pytest.mark.parametrize("odd", ["1e999", "-1", "1e300", "1" + "0" * 400, "NaN", "-Infinity"])
@pytest.mark.parametrize("kind", ["input_cost_per_token", "cache_read_input_token_cost"])
def test_a_price_that_cannot_be_one_costs_its_model_only(used: Shell, tmp_path: Path, odd: str, kind: str) -> None:
    """The others are computed. It is told, and no other price is taken in its place."""
    file = tmp_path / "prices.json"
    bad = json.dumps({**PRICE, kind: "ODD"}).replace('"ODD"', odd)
    file.write_text(f'{{"m-a": {bad}, "m-b": {json.dumps(PRICE)}}}')
    done = used("stats", "--by", "model", "--prices", str(file), "--json")
    costs = {row["key"]: row["total"]["cost"] for row in done.json["rows"]}
    assert costs == {"m-a": 1.5, "m-b": pytest.approx(2000 * 2e-3 + 3000 * 1e-4)}
    assert done.err == f"sessiond: {file} has a price that cannot be one for m-a\n"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        "{",
        '{"m": 3}',
        '{"m": {"input_cost_per_token": -1}}',
        '{"m": {"input_cost_per_token": 1e999, "output_cost_per_token": 1e999}}',
    ],
)
def test_a_file_without_prices(shell: Shell, tmp_path: Path, content: str) -> None:
    file = tmp_path / "prices.json"
    file.write_text(content)
    done = shell("stats", "--prices", str(file))
    assert (done.code, done.out) == (2, "")
    assert str(file) in done.err
    assert "no such" in shell("stats", "--prices", str(tmp_path / "absent")).err.lower()


def test_nothing_was_reported(shell: Shell) -> None:
    assert shell("stats").out == ""
    assert shell("stats").code == 0
    assert on_terminal(shell, "stats", NO_COLOR="1")[1] == "no message reports tokens\n"
    assert shell("stats", "--store", "nosuch").code == 1


def test_an_unknown_tool(used: Shell) -> None:
    shown = on_terminal(used, "stats", "--tool", "codec", NO_COLOR="1")[1]
    assert shown == "no message reports tokens; tools that do: codex, sessiond\n"


def test_bad_arguments(shell: Shell) -> None:
    for arguments, words in (
        (("--since", "yesteryear"), "is not a time"),
        (("--by", "year"), "day"),
        (("--time-zone", "Mars/Base"), "unknown time zone"),
    ):
        done = shell("stats", *arguments)
        assert done.code in (1, 2) and words in done.err, done
