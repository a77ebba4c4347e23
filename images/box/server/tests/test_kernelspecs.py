"""Languages that an image adds as kernel specs."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from box import PACKAGE, Box, result, start_box


def _spec(folder: Path, name: str, **metadata: object) -> None:
    """Create a spec that runs the Python kernel under another name."""
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
    with start_box(module_folder, forks=False, CODEBOX_KERNELS=str(kernels)) as running:
        yield running


def test_languages_of_the_image_are_listed_besides_the_built_in_ones(box: Box) -> None:
    languages = box.http.get("/codebox/health").json()["languages"]
    assert sorted(languages) == ["bash", "full", "javascript", "plain", "python", "typescript"]
    assert sorted(box.http.get("/api/kernelspecs").json()["kernelspecs"]) == sorted(languages)


def test_a_language_of_the_image_runs_in_a_context_of_its_own(box: Box) -> None:
    box.run("x = 41", "plain")
    assert result(box.run("x + 1", "plain")) == "42"
    context = box.http.get("/codebox/contexts").json()["items"][0]
    assert (context["language"], context["default"]) == ("plain", True)


def test_a_built_in_language_cannot_be_replaced(box: Box) -> None:
    assert [event["text"] for event in box.run("echo $((6*7))", "bash") if event["type"] == "stdout"] == ["42\n"]


def test_the_environment_of_a_run_is_refused_where_the_kernel_does_not_support_it(box: Box) -> None:
    refused = box.start("1", "plain", env={"A": "b"})
    refused.join()
    assert (refused.status, refused.error["pointer"]) == (400, "/env")
    assert result(box.run("import os; os.environ['A']", "full", env={"A": "b"})) == "'b'"


def test_binding_restarts_a_kernel_that_cannot_change_its_environment(box: Box) -> None:
    assert box.http.post("/codebox/warm", json={"languages": ["plain"]}).status_code == 204
    assert box.http.post("/codebox/bind", json={"env": {"BOUND": "yes"}}).status_code == 204
    events = box.run("import os; os.environ['BOUND']", "plain")
    assert result(events) == "'yes'"
    assert (events[-1]["executionCount"], events[-1]["stateLost"]) == (1, False)
    assert box.http.post("/codebox/bind", json={"env": {}}).status_code == 204


def test_binding_keeps_the_variables_of_a_kernel_that_can_change_its_environment(box: Box) -> None:
    box.run("kept = 1", "full")
    assert box.http.post("/codebox/bind", json={"env": {"BOUND": "later"}}).status_code == 204
    events = box.run("import os; (kept, os.environ['BOUND'])", "full")
    assert result(events) == "(1, 'later')"
    assert box.http.post("/codebox/bind", json={"env": {}}).status_code == 204


def test_variables_are_listed_only_where_the_kernel_declares_it(box: Box) -> None:
    for language in ("full", "plain"):
        box.run("listed = 42", language)
    responses = {
        context["language"]: box.http.get(f"/codebox/contexts/{context['id']}/variables")
        for context in box.http.get("/codebox/contexts").json()["items"]
    }
    assert "listed" in [item["name"] for item in responses["full"].json()["items"]]
    assert (responses["plain"].status_code, responses["plain"].json()["code"]) == (400, "invalid_request")


def test_an_unknown_language_is_refused_with_the_known_names(box: Box) -> None:
    refused = box.start("1", "cobol")
    refused.join()
    assert (refused.status, refused.error["pointer"]) == (400, "/language")
    assert "plain" in refused.error["detail"]
