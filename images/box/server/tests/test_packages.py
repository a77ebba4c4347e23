"""Hints for missing packages, automatic installation, and the list of packages."""

import json
from pathlib import Path
from typing import Any

import pytest
from box import Box, of, start_box

from codebox_server.packages.conflicts import conflict_hint, refused_package, shadow_hint
from codebox_server.packages.hints import Hints
from codebox_server.packages.inventory import Inventory, changes
from codebox_server.packages.names import DISTRIBUTIONS
from codebox_server.packages.retry import may_run_again
from codebox_server.packages.sources import Sources


@pytest.fixture
def hints(tmp_path: Path) -> Hints:
    return Hints(Inventory(tmp_path / "site", tmp_path / "data"), tmp_path / "data")


def python(hints: Hints, module: str, code: str = "") -> str | None:
    found = hints.of("python", code or f"import {module}", "ModuleNotFoundError", f"No module named '{module}'")
    return None if found is None else found["package"]


@pytest.mark.parametrize(
    ("module", "package"),
    [
        ("cv2", "opencv-python-headless"),
        ("serial", "pyserial"),
        ("fitz", "pymupdf"),
        ("Crypto", "pycryptodome"),
        # Other packages have these names on PyPI.
        ("camelot", "camelot-py"),
        ("whisper", "openai-whisper"),
        ("some_thing", "some-thing"),
        ("polars", "polars"),
    ],
)
def test_the_hint_for_a_missing_module_names_its_distribution(hints: Hints, module: str, package: str) -> None:
    assert python(hints, module) == package


def test_the_hint_for_a_shared_namespace_depends_on_the_imported_name(hints: Hints) -> None:
    assert python(hints, "google", "import os\nfrom google.protobuf import message") == "protobuf"
    assert python(hints, "google.cloud", "from google.cloud import storage") == "google-cloud-storage"
    assert python(hints, "google", "import google.unheard.of") is None


@pytest.mark.parametrize("module", ["tkinter.foo", "_hidden", "os.nothing", "numpy.nothing", "numpy"])
def test_modules_that_no_package_provides_have_no_hint(hints: Hints, module: str) -> None:
    assert python(hints, module) is None


def test_modules_of_the_program_itself_have_no_hint(hints: Hints, tmp_path: Path) -> None:
    (tmp_path / "data/mine").mkdir(parents=True)
    (tmp_path / "data/tool.py").touch()
    assert python(hints, "mine.part") is None
    assert python(hints, "mine") is None
    assert python(hints, "tool") is None
    shadowed = "No module named 'json.x'; 'json' is not a package"
    assert hints.of("python", "", "ModuleNotFoundError", shadowed) is None
    assert hints.of("python", "", "ValueError", "No module named 'polars'") is None


@pytest.mark.parametrize(
    ("value", "package"),
    [
        ("Cannot find module 'lodash'\nRequire stack:\n- /mnt/data/cell.js", "lodash"),
        ("Cannot find package '@scope/thing' imported from /mnt/data/cell.js", "@scope/thing"),
        ("Cannot find module 'lodash/fp'", "lodash"),
        ("Cannot find module './own.js'", None),
        ("Cannot find module '/mnt/data/own.js' imported from /mnt/data/cell.js", None),
        ("Cannot find module 'node:nothing'", None),
        ("Cannot find module '#own'", None),
        ("Cannot find module '../own'", None),
    ],
)
def test_the_hint_for_a_missing_node_module_names_its_package(hints: Hints, value: str, package: str | None) -> None:
    found = hints.of("javascript", "", "Error", value)
    assert (found and found["package"]) == package
    assert hints.of("bash", "", "Error", value) is None


def test_modules_named_unlike_their_distribution_are_known() -> None:
    assert len(DISTRIBUTIONS) >= 60
    assert all("." in name or name.lower() != DISTRIBUTIONS[name].lower() for name in DISTRIBUTIONS)


def cell(line: int) -> list[str]:
    return ["-----", f"Cell \x1b[32mIn[4], line {line}\x1b[39m\n\x1b[31m----> {line}\x1b[39m import x", "Error"]


@pytest.mark.parametrize(
    ("code", "line", "may"),
    [
        ("import x", 1, True),
        ('"""Doc."""\n# note\nimport os\nfrom a import (\n  b)\nimport x\nprint(1)', 6, True),
        ("import os; import x", 1, True),
        ("y = 1\nimport x", 2, False),
        ("import x; y = 1", 1, False),
        ("open('f', 'w')\nimport x", 2, False),
        ("import os\nif True:\n  import x", 3, False),
        ("f'{g()}'\nimport x", 2, False),
        ("import x\n%matplotlib inline", 1, False),
        ("!touch f\nimport x", 2, False),
    ],
)
def test_python_code_may_run_again_only_if_nothing_but_imports_ran(code: str, line: int, may: bool) -> None:
    assert may_run_again("python", code, "x", cell(line)) == may


def test_code_that_failed_inside_another_module_is_not_run_again() -> None:
    inside = [*cell(1), "File /mnt/data/mine.py:2\n----> 2 import x"]
    assert not may_run_again("python", "import mine", "x", inside)
    assert not may_run_again("python", "import x", "x", ["no frames"])


@pytest.mark.parametrize(
    ("code", "may"),
    [
        ("import x from 'x'", True),
        ("import 'x/y';\nf()", True),
        ("// a\n/* b */ import fs, { a as b } from 'fs'\nimport * as x from \"x\"\nf()", True),
        ("const { a: b } = require('fs'); const x = require('x')", True),
        ("let x = await import('x')", True),
        ("f()\nimport x from 'x'", False),
        ("const x = require('x').start()", False),
        ("const y = f(require('x'))", False),
        ("import y from 'y'\nf()", False),
        ("import " + "a " * 100_000, False),
    ],
)
def test_javascript_code_may_run_again_only_if_nothing_but_imports_ran(code: str, may: bool) -> None:
    assert may_run_again("javascript", code, "x", []) == may


def test_installed_packages_are_read_from_the_package_folders(tmp_path: Path) -> None:
    (tmp_path / "site/My_Thing-1.2.dist-info").mkdir(parents=True)
    (tmp_path / "site/old-0.1-py3.11.egg-info").mkdir()
    for name, version in (("left", '"1.0.0"'), ("@s/right", '"2.0.0"'), ("odd", "7")):
        (tmp_path / "data/node_modules" / name).mkdir(parents=True)
        (tmp_path / "data/node_modules" / name / "package.json").write_text(f'{{"version": {version}}}')
    (tmp_path / "data/node_modules/.bin").mkdir()
    inventory = Inventory(tmp_path / "site", tmp_path / "data")
    assert inventory.user("pip") == {"my-thing": "1.2", "old": "0.1"}
    assert inventory.user("npm") == {"left": "1.0.0", "@s/right": "2.0.0"}
    items = {item["name"]: item for item in inventory.items("pip")}
    assert items["my-thing"]["source"] == "user"
    assert items["numpy"]["source"] == "image"
    assert changes({"a": "1", "b": "1"}, {"a": "2", "b": "1", "c": "3"}) == [
        {"name": "a", "version": "2"},
        {"name": "c", "version": "3"},
    ]


def test_packages_are_never_options_of_the_installers(tmp_path: Path) -> None:
    open_box = Sources(True, tmp_path / "none")
    assert open_box.argv("pip", ["a", "b[c]>=1"])[-3:] == ["--", "a", "b[c]>=1"]
    assert open_box.argv("npm", ["a@1"])[-2:] == ["--", "a@1"]
    closed = Sources(False, tmp_path / "none")
    assert "--no-index" in closed.argv("pip", ["./a.whl"])
    for manager, package in (("pip", "a"), ("npm", "a"), ("pip", "https://host/a.whl")):
        with pytest.raises(Exception, match="no network"):
            closed.argv(manager, [package])


@pytest.mark.parametrize(
    "body",
    [
        {"packages": []},
        {"packages": "six"},
        {"packages": ["-r x"]},
        {"packages": ["a\nb"]},
        {"packages": ["a\0b"]},
        {"packages": [" a"]},
        {"packages": ["a" * 301]},
        {"packages": [1]},
        {"packages": ["a"], "manager": "apt"},
        {"packages": ["a"], "timeoutMs": 0},
        {"packages": ["a"], "options": []},
    ],
)
def test_a_bad_installation_is_refused(box: Box, body: dict[str, Any]) -> None:
    response = box.http.put("/codebox/packages/one", json=body)
    assert (response.status_code, response.json()["code"]) == (400, "invalid_request")


def test_packages_are_listed_in_pages(box: Box) -> None:
    first = box.http.get("/codebox/packages", params={"limit": 2}).json()
    second = box.http.get("/codebox/packages", params={"limit": 2, "cursor": first["nextCursor"]}).json()
    names = [item["name"] for item in (*first["items"], *second["items"])]
    assert len(names) == 4
    assert names == sorted(set(names))
    assert box.http.get("/codebox/packages", params={"manager": "npm"}).json() == {"items": [], "nextCursor": None}
    assert box.http.get("/codebox/packages", params={"limit": "x"}).status_code == 400


def test_an_import_error_has_a_hint_for_the_missing_package(box: Box) -> None:
    error = of(box.run("import os\nimport skimage.io"), "error")[0]
    assert error["hint"] == {
        "code": "install_package",
        "manager": "pip",
        "package": "scikit-image",
        "module": "skimage",
        "detail": error["hint"]["detail"],
    }
    assert error["hint"]["detail"].endswith("Install it, or run with autoInstall.")
    assert "hint" not in of(box.run("1/0"), "error")[0]
    (box.data / "own.py").write_text("from .nothing import x")
    assert "hint" not in of(box.run("import own"), "error")[0]
    error = of(box.run("require('left-pad')", language="javascript"), "error")[0]
    assert (error["hint"]["manager"], error["hint"]["package"]) == ("npm", "left-pad")


def test_a_failed_installation_reports_the_error_with_its_hint(box: Box) -> None:
    # pip refuses to install into this environment and ends at once.
    events = box.run("import skimage", autoInstall=True)
    assert [event["type"] for event in events] == ["started", "install", "error", "done"]
    assert of(events, "install")[0]["exitCode"] != 0
    hint = of(events, "error")[0]["hint"]
    assert hint["package"] == "scikit-image" and hint["detail"].endswith("autoInstall could not install it.")
    assert events[-1]["status"] == "error"
    assert json.dumps(events).count("ModuleNotFoundError") >= 1


def test_code_that_ran_more_than_imports_is_not_run_again(box: Box) -> None:
    events = box.run("open('a', 'a').write('x')\nimport skimage", autoInstall=True)
    assert (box.data / "a").read_text() == "x"
    assert [event["type"] for event in events] == ["started", "error", "done"]
    assert "more than imports had run" in events[1]["hint"]["detail"]


def test_a_box_without_package_sources_reports_that_auto_install_cannot_work(folder: Path) -> None:
    with start_box(folder, forks=False, CODEBOX_NETWORK="none", CODEBOX_WHEELS="/nowhere") as box:
        detail = of(box.run("import skimage", autoInstall=True), "error")[0]["hint"]["detail"]
        assert "autoInstall has nowhere to get it from" in detail


# What pip prints when nothing fits: for two packages, and for one that the kernels run on.
EXCLUSIVE = (
    "ERROR: Cannot install numba==0.57 and NumPy==2.3 because these package versions have conflicting dependencies."
)
FIXED = "    The user requested (constraint) Tornado==6.6.1"


def test_code_that_fails_because_pip_found_no_fitting_versions_gets_a_hint(box: Box) -> None:
    hint = of(box.run(f"(echo '{EXCLUSIVE}' >&2; exit 1)", "bash"), "error")[0]["hint"]
    assert (hint["code"], hint["manager"], hint["package"]) == ("package_conflict", "pip", "numba")
    assert "version" not in hint
    python = f"import sys\nprint({EXCLUSIVE!r}, file=sys.stderr)\n1 / 0"
    assert of(box.run(python), "error")[0]["hint"] == hint
    assert "hint" not in of(box.run("false", "bash"), "error")[0]


@pytest.mark.parametrize(
    ("value", "library"),
    [
        ("libGL.so.1: cannot open shared object file: No such file or directory", "libGL.so.1"),
        ("cannot load library 'libpango-1.0-0': libpango-1.0-0: cannot open shared object file: …", "libpango-1.0-0"),
    ],
)
def test_code_that_lacks_a_library_of_the_system_gets_a_hint(box: Box, value: str, library: str) -> None:
    hint = of(box.run(f"raise OSError({value!r})"), "error")[0]["hint"]
    assert (hint["code"], hint["library"]) == ("missing_library", library)
    assert "full" in hint["detail"]


class _Image(Inventory):
    def image(self) -> dict[str, str]:
        return {"tornado": "6.6.1", "numpy": "2.3.5"}

    def fixed(self) -> set[str]:
        return {"tornado"}


def test_the_hint_for_a_package_that_kernels_run_on_names_its_version(tmp_path: Path) -> None:
    hint = conflict_hint(_Image(tmp_path, tmp_path), refused_package(f"{EXCLUSIVE}\n{FIXED}"))
    assert hint is not None
    assert (hint["code"], hint["package"], hint["version"]) == ("package_conflict", "tornado", "6.6.1")
    assert refused_package("all is well") is None


def test_the_hint_for_packages_in_place_of_those_of_the_image_names_both_versions(tmp_path: Path) -> None:
    changed = [{"name": "cowsay", "version": "6"}, {"name": "numpy", "version": "1.26.4"}]
    hint = shadow_hint(_Image(tmp_path, tmp_path), changed)
    assert hint is not None
    assert (hint["code"], hint["package"], hint["version"]) == ("restart_kernel", "numpy", "2.3.5")
    assert "numpy 1.26.4 (2.3.5)" in hint["detail"]
    assert shadow_hint(_Image(tmp_path, tmp_path), changed[:1]) is None


def test_the_hint_for_a_package_that_pandas_has_looked_for_says_to_restart(tmp_path: Path) -> None:
    changed = [{"name": "cowsay", "version": "6"}, {"name": "pyarrow", "version": "26.0.1"}]
    hint = shadow_hint(_Image(tmp_path, tmp_path), changed)
    assert hint is not None
    assert (hint["code"], hint["package"]) == ("restart_kernel", "pyarrow")
