"""requirements.lock holds all that pyproject.toml asks for, hashed, and nothing that tells where it was fetched."""

from __future__ import annotations

import re
from importlib.metadata import distribution

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.supply import lock
from webapp.stack.install import ENTRY, LOCK, TORCH, list_pins

TEXT = LOCK.read_text()
DECLARED = [
    (extra, Requirement(text))
    for extra in lock.EXTRAS
    for text in (*lock.ABOUT["project"]["dependencies"], *lock.ABOUT["project"]["optional-dependencies"][extra])
]


def pinned(extra: str, machine: tuple[str, str]) -> dict[str, str]:
    """Versions by name that an extra installs on a machine; torch, which goes in apart, among them."""
    found = [pin for text in list_pins([extra], TEXT) for pin in lock.PIN.finditer(text)]
    name, _, version = TORCH.partition("==")
    return {pin["name"]: pin["version"] for pin in found if machine in lock.applies(pin["rest"])} | {name: version}


@pytest.mark.parametrize("machine", lock.machines(), ids="-".join)
def test_what_is_declared_is_pinned_in_its_range_on_every_machine(machine: tuple[str, str]) -> None:
    versions = {extra: pinned(extra, machine) for extra in lock.EXTRAS}
    wrong = [
        f"{extra}: {wanted}, pinned is {version or 'none'}"
        for extra, wanted in DECLARED
        for version in [versions[extra].get(canonicalize_name(wanted.name), "")]
        if not version or version not in wanted.specifier
    ]
    assert not wrong, "run make lock"


@pytest.mark.parametrize("extra", [extra for extra in lock.EXTRAS if extra != "lock"])
def test_what_an_extra_pins_is_all_that_its_packages_need(extra: str) -> None:
    """pip is told to look for nothing else. Asked of what is installed here, as its metadata has it."""
    here = {name for pin in list_pins([extra], TEXT) for name in lock.versions(pin)} | {"torch"}
    waiting = [(wanted.name, tuple(wanted.extras)) for name, wanted in DECLARED if name == extra]
    seen = set(waiting)
    while waiting:
        name, extras = waiting.pop()
        assert canonicalize_name(name) in here, f"{name} is needed and not pinned: run make lock"
        for text in distribution(name).requires or ():
            need = Requirement(text)
            one = (need.name, tuple(need.extras))
            applies = need.marker is None or any(need.marker.evaluate({"extra": asked}) for asked in (*extras, ""))
            if applies and one not in seen and not lock.APART.fullmatch(canonicalize_name(need.name)):
                seen.add(one)
                waiting.append(one)


def test_every_pin_has_hashes_and_an_extra_and_no_address() -> None:
    entries = [found["pin"] for found in ENTRY.finditer(TEXT)]
    assert len(entries) == len(lock.PIN.findall(TEXT)) > 100
    assert all(re.fullmatch(r"[^\n]+(?: \\\n    --hash=sha256:[0-9a-f]{64})+\n", pin) for pin in entries)
    assert {one for found in ENTRY.finditer(TEXT) for one in found["extras"].split(", ")} == set(lock.EXTRAS)
    assert "".join(found[0] for found in ENTRY.finditer(TEXT)) == TEXT.removeprefix(lock.HEAD)
    assert not re.search(r"://|^\s*--(?!hash=)", TEXT, re.MULTILINE)


def test_every_range_has_an_end() -> None:
    project = lock.ABOUT["project"]
    texts = [*lock.ABOUT["build-system"]["requires"], f"python{project['requires-python']}"]
    wanted = [wanted for _extra, wanted in DECLARED] + [Requirement(text) for text in texts]
    endless = [
        str(one) for one in wanted if not any(bound.operator in ("<", "<=", "==", "~=") for bound in one.specifier)
    ]
    assert not endless


def test_the_pythons_that_are_pinned_for_are_those_that_are_declared() -> None:
    wanted = Requirement(f"python{lock.ABOUT['project']['requires-python']}").specifier
    minors = [f"3.{minor}" for minor in range(9, 30) if wanted.contains(f"3.{minor}.1")]
    assert tuple(minors) == lock.PYTHONS


def test_what_uv_writes_is_kept_by_extra_without_what_goes_in_apart() -> None:
    resolved = (
        "redis==8.1.0 ; sys_platform == 'darwin' or sys_platform == 'linux' \\\n    --hash=sha256:aa\n"
        "    # via envarium (pyproject.toml)\n"
        "vine==5.1.0 ; python_full_version < '3.12' \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\n"
        "    # via\n    #   torch\n    #   redis\n"
        "torch==2.13.0 \\\n    --hash=sha256:dd\n    # via envarium (pyproject.toml)\n"
        "nvidia-nccl-cu13==2.1 \\\n    --hash=sha256:ee\n    # via torch\n"
        "tzdata==2026.6 ; sys_platform == 'win32' \\\n    --hash=sha256:ff\n    # via redis\n"
    )
    assert lock.written(resolved) == lock.HEAD + (
        "# for: web\nredis==8.1.0 \\\n    --hash=sha256:aa\n"
        "# for: web, train\nvine==5.1.0 ; python_full_version < '3.12' \\\n"
        "    --hash=sha256:bb \\\n    --hash=sha256:cc\n"
    )


def test_what_changed_is_said_by_name() -> None:
    before = "redis==8.1.0 \\\n    --hash=sha256:aa\nvine==5.1.0 \\\n    --hash=sha256:bb\n"
    after = "amqp==5.4.2 \\\n    --hash=sha256:cc\nredis==8.2.0 \\\n    --hash=sha256:dd\n"
    assert lock.changes(before, after) == ["amqp (new) -> 5.4.2", "redis 8.1.0 -> 8.2.0", "vine 5.1.0 -> (gone)"]
    assert lock.changes(before, before) == ["Nothing changed."]
    assert "other hashes" in lock.changes(before, before.replace("aa", "ee"))[0]
