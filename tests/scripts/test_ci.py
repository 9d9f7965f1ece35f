"""What the site that hosts the project reads: the workflow and the templates."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.shell import ROOT

GITHUB = ROOT / ".github"
FORMS = sorted(path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def job() -> Any:
    (only,) = load(GITHUB / "workflows" / "ci.yml")["jobs"].values()
    return only


def test_the_workflow_runs_what_ci_runs() -> None:
    """Its one test step is `.ci/run`, which runs `tests/run`; CI=true makes a missing program a failure."""
    steps = [step for step in job()["steps"] if "ci/run" in step.get("run", "")]
    assert [step["run"] for step in steps] == ["sh .ci/run"]
    assert steps[0]["env"] == {"CI": "true"}
    assert re.search(r"^HOME=.* sh tests/run ", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)


def test_the_workflow_tests_every_python_that_is_supported() -> None:
    """The matrix, the package's classifiers, its lowest version, `tests/pythons` and the README name the same ones."""
    tested = job()["strategy"]["matrix"]["python"]
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    prefix = "Programming Language :: Python :: "
    named = [one.removeprefix(prefix) for one in project["classifiers"] if one.startswith(prefix)]
    assert [one for one in named if one[0:2] == "3."] == tested
    assert project["requires-python"] == f">={tested[0]}"
    assert f'versions="{" ".join(tested)}"' in (ROOT / "tests" / "pythons").read_text()
    assert f"Python {tested[0]} to {tested[-1]}" in (ROOT / "README.md").read_text()


def test_the_workflow_runs_for_changes_that_are_proposed() -> None:
    """It may read the repository and nothing more. YAML reads the key `on` as true."""
    workflow = load(GITHUB / "workflows" / "ci.yml")
    assert set(workflow[True]) == {"push", "pull_request"}
    assert workflow["permissions"] == {"contents": "read"}


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_issue_forms_have_what_a_form_needs(path: Path) -> None:
    """A name, a description, and inputs whose ids differ and that have a label."""
    form = load(path)
    assert form["name"]
    assert form["description"]
    inputs = [one for one in form["body"] if one["type"] != "markdown"]
    assert {one["type"] for one in inputs} <= {"input", "textarea", "dropdown", "checkboxes"}
    assert len({one["id"] for one in inputs}) == len(inputs) > 0
    assert all(one["attributes"]["label"] for one in inputs)


def test_what_a_template_names_is_there() -> None:
    """Files and folders in backquotes."""
    for path in (*FORMS, GITHUB / "pull_request_template.md"):
        for name in re.findall(r"`(?:sh )?([\w.]+/[\w./]*)`", path.read_text()):
            assert (ROOT / name).exists(), (path.name, name)
