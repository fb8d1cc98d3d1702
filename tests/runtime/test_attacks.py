"""Every attack, as every kind of host the sandbox runs on."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest

from tests.runtime.hostile import ATTACKS, Attack
from tests.runtime.hosts import run_module, unavailable

# host: (how the process runs, mode asked of the sandbox, mode it reports)
HOSTS = {
    "root": ("root", "auto", "root"),
    "no_namespaces": ("same", "no_namespaces", "no_namespaces"),
    "user": ("user", "auto", "user"),
    "user_no_namespaces": ("user", "no_namespaces", "no_namespaces"),
    "no_caps": ("no_caps", "auto", "no_namespaces"),
}


@functools.cache
def fought(host: str) -> dict[str, Any]:
    kind, mode, _ = HOSTS[host]
    done = run_module(kind, "tests.runtime.arena", mode)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


QUICK = "root"
"""The host of `make test`; on each of the others it takes as long again."""


def marks(host: str) -> list[pytest.MarkDecorator]:
    """One host, one of pytest-xdist's workers: what happened there is asked of by many tests."""
    group = pytest.mark.xdist_group(f"attacks on {host}")
    return [group] if host == QUICK else [group, pytest.mark.slow]


@pytest.fixture(params=[pytest.param(host, marks=marks(host)) for host in HOSTS])
def host(request: pytest.FixtureRequest) -> str:
    reason = unavailable(HOSTS[request.param][0])
    if reason:
        pytest.skip(reason)
    return request.param


def test_there_are_at_least_fifty_attacks() -> None:
    assert len(ATTACKS) >= 50
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_attack(host: str, attack: Attack) -> None:
    outcome = next(o for o in fought(host)["outcomes"] if o["name"] == attack.name)
    # On a busy machine the clock may come before the limit of memory; either way it is stopped.
    late = ("lost:time",) if "lost:memory" in attack.outcomes else ()
    assert outcome["outcome"] in (*attack.outcomes, *late), outcome
    assert outcome["seconds"] < 12, outcome
    if "ALL_REFUSED" in attack.code or "refused" in attack.code:
        assert outcome["said"] == '"refused"', outcome


def test_host_is_unharmed(host: str) -> None:
    found = fought(host)
    harm = {key: found[key] for key in ("connected", "written", "leaked")}
    assert harm == dict.fromkeys(harm, False)
    whole = {key: found[key] for key in ("neighbour", "same_zygote", "canary_alive", "secret_intact")}
    assert whole == dict.fromkeys(whole, True)


def test_nothing_is_left(host: str) -> None:
    found = fought(host)
    assert found["left"] <= 2
    assert found["left_after_close"] == 0


def test_report_says_what_holds(host: str) -> None:
    report = fought(host)["report"]
    layers = {layer["name"]: layer["active"] for layer in report["layers"]}
    assert report["mode"] == HOSTS[host][2]
    assert layers["seccomp"]
    assert layers["limits"]
    assert layers["probe"]
    assert layers["clock"], "the kernel here lets its page of clocks be changed"
    assert layers["namespaces"] == (report["mode"] in ("root", "user"))
    assert layers["own uid"] == (host in ("root", "no_namespaces") and HOSTS[host][0] != "no_caps")
