"""The bill of materials names what is installed, with licences, hashes and what needs what."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

from tests.supply.bill_of_materials import main
from webapp.stack.install import TORCH


def test_the_bill_names_versions_licences_hashes_and_needs(tmp_path: Path) -> None:
    path = tmp_path / "build" / "sbom.json"
    main(path)
    bill = json.loads(path.read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    found = {one["name"]: one for one in bill["components"]}
    django = found["django"]
    assert django["version"] == version("django")
    assert django["purl"] == f"pkg:pypi/django@{version('django')}"
    assert django["licenses"] == [{"license": {"id": "BSD-3-Clause"}}]
    assert {one["alg"] for one in django["hashes"]} == {"SHA-256"}
    assert django["properties"] == [{"name": "envarium:extras", "value": "web, dev"}]
    assert found["torch"]["version"].startswith(TORCH.partition("==")[2])
    needs = {one["ref"]: one.get("dependsOn", []) for one in bill["dependencies"]}
    assert f"pkg:pypi/asgiref@{version('asgiref')}" in needs[django["purl"]]
    assert django["purl"] in needs[bill["metadata"]["component"]["bom-ref"]]
    silent = [name for name, one in found.items() if not one.get("licenses")]
    assert len(silent) < len(found) / 20, f"licences are not read: {silent}"
