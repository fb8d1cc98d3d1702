"""Every route of the site carries an access rule, and keeps it for every role."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from tests.fixtures import pages_seed, replay_seed
from webapp.accounts.access import SCOPES
from webapp.accounts.models import Role
from webapp.scenarios.models import Playground

OPEN = {200, 302, 400, 404, 405, 409, 422, 503}
"""What a person with the right may meet on a bare request. Never 403, never the login, never 500."""


def routes(patterns: list[Any], prefix: str = "") -> Iterator[tuple[str, URLPattern, set[str]]]:
    for one in patterns:
        if isinstance(one, URLResolver):
            space = f"{prefix}{one.namespace}:" if one.namespace else prefix
            yield from routes(one.url_patterns, space)
        else:
            yield f"{prefix}{one.name}", one, set(one.pattern.converters)


ROUTES = {name: (pattern, needs) for name, pattern, needs in routes(get_resolver().url_patterns)}


@pytest.fixture
def arguments(db: None) -> dict[str, dict[str, Any]]:
    """What each route's arguments are: by route name, else by its namespace."""
    run = replay_seed.make(replay_seed.ordinary())
    environment = run.environment
    version = run.task.scenario.version
    sandbox_of = pages_seed.person("annotator")
    check = run.revision.checks.get(position=0)
    play = Playground.objects.create(user=sandbox_of, version=version, now="2025-01-01T09:00:00+00:00")
    return {
        "environments": {"pk": environment.pk, "a": 1, "b": 1},
        "jobs": {"pk": pages_seed.job().pk},
        "scenarios": {"pk": run.task_id, "a": 1, "b": 1},
        "scenarios:of_environment": {"pk": environment.pk},
        "scenarios:state": {"pk": run.task.scenario_id},
        "scenarios:check": {"pk": check.pk},
        "scenarios:try": {"pk": version.pk},
        "scenarios:playground": {"pk": play.pk},
        "trajectories": {"pk": run.pk, "index": 1, "position": 0, "task_pk": run.task_id},
    }


def address(name: str, needs: set[str], known: dict[str, dict[str, Any]]) -> str:
    space = name.partition(":")[0]
    start = next((key for key in known if ":" in key and name.startswith(key)), space)
    exact = known.get(name) or known.get(start, {})
    missing = needs - set(exact)
    assert not missing, f"{name} needs {missing}: give this test an object for it in `arguments`."
    return reverse(name, kwargs={key: exact[key] for key in needs})


def test_every_route_has_a_name_and_a_rule() -> None:
    known = {"public", *SCOPES[Role.ADMIN]}
    faults = [
        f"{name} ({pattern.pattern})"
        for name, (pattern, _) in ROUTES.items()
        if name.endswith("None") or getattr(pattern.callback, "access_scope", None) not in known
    ]
    assert not faults, f"without @access or without a name: {faults}"
    assert len(ROUTES) > 20


def test_every_route_keeps_its_rule_for_every_role(arguments: dict[str, dict[str, Any]]) -> None:
    people: dict[str, Client] = {"anonymous": Client()}
    for role in Role.values:
        user = pages_seed.User.objects.filter(role=role).first() or pages_seed.person(role)
        people[role] = Client()
        people[role].force_login(user)
    login = reverse("accounts:login")
    faults: list[str] = []
    for name, (pattern, needs) in ROUTES.items():
        url = address(name, needs, arguments)
        scope = pattern.callback.access_scope  # type: ignore[attr-defined]
        for role, client in people.items():
            client.raise_request_exception = False
            allowed = scope == "public" or scope in SCOPES.get(role, ())
            for method in ("get",) if allowed else ("get", "post"):
                answer = getattr(client, method)(url)
                to_login = answer.status_code == 302 and answer.headers["Location"].startswith(f"{login}?next=")
                if allowed:
                    kept = answer.status_code in OPEN and not to_login
                else:
                    kept = answer.status_code == 405 or (to_login if role == "anonymous" else answer.status_code == 403)
                if not kept:
                    faults.append(f"{method} {name} ({scope}) as {role}: {answer.status_code}")
    assert not faults, "\n".join(faults)
