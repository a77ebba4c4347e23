"""The lists that the build of an image writes."""

import json
import re
from pathlib import Path

import pytest

from codebox_server.contents import bill, programs
from codebox_server.contents.contents import contents_of
from codebox_server.packages.inventory import Inventory


def test_programs_are_listed_with_the_versions_that_they_print(capsys: pytest.CaptureFixture[str]) -> None:
    programs.main()
    found = {item["name"]: item["version"] for item in json.loads(capsys.readouterr().out)}
    assert list(found) == sorted(found, key=str.lower)
    assert re.fullmatch(r"\d+\.\d+.*", found["bash"])
    assert None not in found.values()


def test_the_bill_of_materials_has_package_urls_of_both_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    bill.main()
    written = json.loads(capsys.readouterr().out)
    assert (written["bomFormat"], written["specVersion"]) == ("CycloneDX", "1.6")
    purls = [item["purl"] for item in written["components"]]
    assert purls == sorted(set(purls))
    assert any(purl.startswith("pkg:pypi/tornado@") for purl in purls)
    if Path("/var/lib/dpkg/status").exists():
        assert any(purl.startswith("pkg:deb/debian/dpkg@") for purl in purls)


def test_an_image_without_a_list_of_programs_has_none(tmp_path: Path) -> None:
    inventory = Inventory(tmp_path, tmp_path)
    found = contents_of(inventory, tmp_path / "none")
    assert found["programs"] == []
    assert "tornado" in [item["name"] for item in found["packages"]]
    (tmp_path / "programs.json").write_text('[{"name": "git", "version": "2"}]')
    assert contents_of(inventory, tmp_path / "programs.json")["programs"] == [{"name": "git", "version": "2"}]
