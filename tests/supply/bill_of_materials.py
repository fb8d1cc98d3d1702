"""Writes the bill of materials, in CycloneDX's JSON, of what is installed here: `make sbom`.

Names, versions, licences, hashes of the files that may be installed, what needs what, and which extras want it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.supply.lock import ABOUT
from webapp.stack.install import ENTRY, LOCK, TORCH

CLASSIFIER = "License :: OSI Approved :: "


def bill() -> Bom:
    """All that is pinned for this Python and machine and installed, and torch."""
    bom = Bom()
    about = ABOUT["project"]
    itself = component(about["name"], about["version"], [about["license"]])
    bom.metadata.component = itself
    known = {found.name: found for found in components()}
    for found in known.values():
        bom.components.add(found)
    listed = [*about["dependencies"], *(text for extra in about["optional-dependencies"].values() for text in extra)]
    bom.register_dependency(itself, present(listed, known))
    for name, found in known.items():
        bom.register_dependency(found, present(distribution(name).requires or (), known))
    return bom


def components() -> Iterator[Component]:
    """A component for each installed package that is pinned."""
    pinned = {}
    for found in ENTRY.finditer(LOCK.read_text()):
        name, _, rest = found["pin"].partition("==")
        pinned[name, rest.split()[0]] = found
    for name, version in (*pinned, TORCH.split("==")):
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue
        if package.version.partition("+")[0] != version:
            continue
        one = component(name, package.version, licences(package))
        if entry := pinned.get((name, version)):
            for value in re.findall(r"sha256:([0-9a-f]{64})", entry["pin"]):
                one.hashes.add(HashType(alg=HashAlgorithm.SHA_256, content=value))
            one.properties.add(Property(name="envarium:extras", value=entry["extras"]))
        yield one


def component(name: str, version: str, licensed: Iterable[str]) -> Component:
    """A library of PyPI's, with its licences by SPDX where they are spelled so."""
    said = [LicenseFactory().make_from_string(text) for text in licensed]
    reference = PackageURL("pypi", name=name, version=version)
    return Component(
        type=ComponentType.LIBRARY, name=name, version=version, purl=reference, bom_ref=str(reference), licenses=said
    )


def licences(package: Distribution) -> list[str]:
    """What a package says of its licence: an expression, else classifiers, else the first line of a free text."""
    about = package.metadata
    if expression := about.get("License-Expression"):
        return [expression]
    classified = [text.removeprefix(CLASSIFIER) for text in about.get_all("Classifier") or () if CLASSIFIER in text]
    free = (about.get("License") or "").strip().partition("\n")[0][:100]
    return classified or ([free] if free else [])


def present(texts: Iterable[str], known: dict[str, Component]) -> list[Component]:
    """The components behind requirements, as far as they are installed."""
    names = {canonicalize_name(Requirement(text).name) for text in texts}
    return [known[name] for name in sorted(names & known.keys())]


def main(path: Path) -> None:
    bom = bill()
    path.parent.mkdir(parents=True, exist_ok=True)
    JsonV1Dot6(bom).output_to_file(str(path), allow_overwrite=True, indent=1)
    silent = sorted(one.name for one in bom.components if not one.licenses)
    print(f"{len(bom.components)} packages in {path}; no licence said by: {', '.join(silent) or 'none'}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
