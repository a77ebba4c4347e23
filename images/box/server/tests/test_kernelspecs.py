"""Languages that an image brings as kernel specs."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from box import PACKAGE, Box, result, start_box


def _spec(folder: Path, name: str, **metadata: object) -> None:
    """A kernel that is Python's under another name."""
    (folder / name).mkdir(parents=True)
    launch = str(PACKAGE / "codebox_server" / "kernels" / "launch.py")
    argv = [sys.executable, "-P", launch, "python", "{connection_file}"]
    spec = {"argv": argv, "display_name": name, "language": name, "metadata": metadata}
    (folder / name / "kernel.json").write_text(json.dumps(spec))


@pytest.fixture(scope="module")
def box(module_folder: Path) -> Iterator[Box]:
    kernels = module_folder / "kernels"
    _spec(kernels, "plain")
    _spec(kernels, "full", codebox={"env": True, "environment": True, "variables": True})
    _spec(kernels, "Not-A-Name")
    _spec(kernels, "bash")
    with start_box(module_folder, CODEBOX_KERNELS=str(kernels)) as running:
        yield running


def test_the_languages_of_the_image_stand_beside_our_own(box: Box) -> None:
    languages = box.http.get("/codebox/health").json()["languages"]
    assert sorted(languages) == ["bash", "full", "javascript", "plain", "python", "typescript"]
    assert sorted(box.http.get("/api/kernelspecs").json()["kernelspecs"]) == sorted(languages)


def test_a_language_of_the_image_runs_in_a_context_of_its_own(box: Box) -> None:
    box.run("x = 41", "plain")
    assert result(box.run("x + 1", "plain")) == "42"
    context = box.http.get("/codebox/contexts").json()["items"][0]
    assert (context["language"], context["default"]) == ("plain", True)


def test_a_language_of_the_package_cannot_be_replaced(box: Box) -> None:
    assert [event["text"] for event in box.run("echo $((6*7))", "bash") if event["type"] == "stdout"] == ["42\n"]


def test_the_environment_of_a_run_is_refused_where_the_kernel_does_not_take_it(box: Box) -> None:
    refused = box.start("1", "plain", env={"A": "b"})
    refused._thread.join(30)
    assert (refused.status, refused.error["pointer"]) == (400, "/env")
    assert result(box.run("import os; os.environ['A']", "full", env={"A": "b"})) == "'b'"


def test_a_kernel_that_cannot_be_given_an_environment_starts_anew_with_it(box: Box) -> None:
    assert box.http.post("/codebox/warm", json={"languages": ["plain"]}).status_code == 204
    assert box.http.post("/codebox/bind", json={"env": {"BOUND": "yes"}}).status_code == 204
    events = box.run("import os; os.environ['BOUND']", "plain")
    assert result(events) == "'yes'"
    assert (events[-1]["executionCount"], events[-1]["stateLost"]) == (1, False)
    assert box.http.post("/codebox/bind", json={"env": {}}).status_code == 204


def test_a_kernel_that_declares_it_keeps_its_variables_when_its_environment_changes(box: Box) -> None:
    box.run("kept = 1", "full")
    assert box.http.post("/codebox/bind", json={"env": {"BOUND": "later"}}).status_code == 204
    events = box.run("import os; (kept, os.environ['BOUND'])", "full")
    assert result(events) == "(1, 'later')"
    assert box.http.post("/codebox/bind", json={"env": {}}).status_code == 204


def test_a_kernel_that_declares_it_tells_its_variables_and_another_one_is_not_asked(box: Box) -> None:
    for language in ("full", "plain"):
        box.run("told = 42", language)
    answers = {
        context["language"]: box.http.get(f"/codebox/contexts/{context['id']}/variables")
        for context in box.http.get("/codebox/contexts").json()["items"]
    }
    assert "told" in [item["name"] for item in answers["full"].json()["items"]]
    assert (answers["plain"].status_code, answers["plain"].json()["code"]) == (400, "invalid_request")


def test_an_unknown_language_is_refused_with_the_names_of_those_that_are_there(box: Box) -> None:
    refused = box.start("1", "cobol")
    refused._thread.join(30)
    assert (refused.status, refused.error["pointer"]) == (400, "/language")
    assert "plain" in refused.error["detail"]
