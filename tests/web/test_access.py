"""Every route of the site carries an access rule, and keeps it for every role."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.http import HttpResponse
from django.template.backends.django import Template
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from ninja.operation import Operation

from tests.fixtures import pages_seed
from tests.web.addressed_rows import api_objects, objects, route_arguments
from webapp.accounts.access import SCOPE_WORDS, SCOPES
from webapp.accounts.models import Role, User
from webapp.accounts.tokens import create_token
from webapp.api import api, find_scope

API = "api"
OPEN = {200, 302, 400, 404, 405, 409, 422, 503}
"""What a person with the right may meet on a bare request. Never 403, never the login, never 500."""


def routes(patterns: list[Any], prefix: str = "") -> Iterator[tuple[str, URLPattern, set[str]]]:
    for one in patterns:
        if isinstance(one, URLResolver) and one.namespace == API:
            continue  # its operations are walked below
        elif isinstance(one, URLResolver):
            space = f"{prefix}{one.namespace}:" if one.namespace else prefix
            yield from routes(one.url_patterns, space)
        else:
            yield f"{prefix}{one.name}", one, set(one.pattern.converters)


ROUTES = {name: (pattern, needs) for name, pattern, needs in routes(get_resolver().url_patterns)}


@pytest.fixture
def arguments(db: None) -> dict[str, dict[str, Any]]:
    return route_arguments(objects())


def address(name: str, needs: set[str], known: dict[str, dict[str, Any]]) -> str:
    space = name.partition(":")[0]
    start = max((key for key in known if ":" in key and name.startswith(key)), key=len, default=space)
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


def everyone() -> dict[str, User]:
    return {role: User.objects.filter(role=role).first() or pages_seed.person(role) for role in Role.values}


def content() -> dict[str, str]:
    """Every row there is, as a hash a table: what a refused request must leave alone."""
    with connection.cursor() as cursor:
        found = {}
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT coalesce(md5(string_agg(t::text, '|' ORDER BY t::text)), '') FROM \"{table}\" t")
            found[table] = cursor.fetchone()[0]
    return found


def changed(before: dict[str, str]) -> list[str]:
    after = content()
    return [f"{table} was changed by refused requests" for table in after if before.get(table) != after[table]]


@contextmanager
def blank_pages() -> Iterator[None]:
    """Views decide, and what they answer with is not written: that takes most of a request's time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Template, "render", lambda *_args, **_kwargs: "")
        yield


@pytest.mark.slow
def test_every_route_keeps_its_rule_for_every_role(arguments: dict[str, dict[str, Any]]) -> None:
    """Pages are written for the first and the last role that may see them, as for whoever is refused first."""
    people = {"anonymous": Client(raise_request_exception=False)}
    for role, user in everyone().items():
        people[role] = Client(raise_request_exception=False)
        people[role].force_login(user)
    login = reverse("accounts:login")
    faults: list[str] = []
    before = content()
    open_ones = []
    for name, (pattern, needs) in ROUTES.items():
        url = address(name, needs, arguments)
        scope = pattern.callback.access_scope  # type: ignore[attr-defined]
        shut = [role for role in people if scope != "public" and scope not in SCOPES.get(role, ())]
        may = [role for role in people if role not in shut]
        open_ones += [(name, url, role, role in (may[0], may[-1])) for role in may]
        for role in shut:
            for method in ("get", "post"):
                with nullcontext() if role == "viewer" and method == "get" else blank_pages():
                    answer = getattr(people[role], method)(url)
                to_login = answer.status_code == 302 and answer.headers["Location"].startswith(f"{login}?next=")
                kept = to_login if role == "anonymous" else answer.status_code == 403
                if not kept and answer.status_code != 405:
                    faults.append(f"{method} {name} ({scope}) as {role}: {answer.status_code}")
    faults += changed(before)
    for name, url, role, written in open_ones:
        with nullcontext() if written else blank_pages():
            answer = people[role].get(url)
        to_login = answer.status_code == 302 and answer.headers["Location"].startswith(f"{login}?next=")
        if answer.status_code not in OPEN or to_login:
            faults.append(f"get {name} as {role}: {answer.status_code}")
    assert not faults, "\n".join(faults)


def api_routes() -> Iterator[tuple[Operation, str, str, str]]:
    """(operation, method, path with {names}, scope) of every operation."""
    for bound in api._get_bound_routers():
        for path, view in bound.path_operations.items():
            plain = re.sub(r"{(\w+):\w+}", r"{\1}", path)
            for one in view.operations:
                for method in one.methods:
                    yield one, method, f"{bound.prefix}{plain}", find_scope(one) or ""


def api_address(name: str, path: str, known: dict[str, dict[str, Any]]) -> str:
    objects = known.get(path.strip("/").split("/")[0], {})
    missing = set(re.findall("{([^}]+)}", path)) - set(objects)
    assert not missing, f"{name} needs {missing}: give this test an object for {path} in `api_objects`."
    return "/api/v1" + path.format(**objects)


def test_every_operation_of_the_api_has_a_rule_and_a_name_of_its_own() -> None:
    known = {"public", *SCOPES[Role.ADMIN]}
    rows = list(api_routes())
    faults = [f"{one.view_func.__name__} ({path})" for one, _, path, scope in rows if scope not in known]
    assert not faults, f"without auth=needs(...), or with more than one rule: {faults}"
    names = Counter(one.view_func.__name__ for one, method, *_ in rows if method != "HEAD")
    assert max(names.values()) == 1, names.most_common(3)
    assert len(rows) > 20


def callers() -> dict[str, tuple[Client, dict[str, str], frozenset[str]]]:
    """Who calls: nobody, every role by session, an administrator's tokens of one scope each, a demoted one's."""
    people = everyone()
    found: dict[str, tuple[Client, dict[str, str], frozenset[str]]] = {}
    found["anonymous"] = (Client(raise_request_exception=False), {}, frozenset())
    for role, user in people.items():
        found[role] = (Client(raise_request_exception=False), {}, SCOPES[role])
        found[role][0].force_login(user)
    for scope in SCOPE_WORDS:
        _, text = create_token(None, people[Role.ADMIN], "a test", [scope])
        headers = {"Authorization": f"Bearer {text}"}
        found[f"token {scope}"] = (Client(raise_request_exception=False), headers, frozenset({scope}))
    demoted = people[Role.OPERATOR]
    _, text = create_token(None, demoted, "a test", ["read", "worker"])
    User.objects.filter(pk=demoted.pk).update(role=Role.VIEWER)
    headers = {"Authorization": f"Bearer {text}"}
    found["token of a demoted person"] = (Client(raise_request_exception=False), headers, frozenset({"read"}))
    del found[Role.OPERATOR]
    return found


@contextmanager
def nothing_behind(operation: Operation) -> Iterator[None]:
    """The operation's rule stands, what it would do is left out."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operation, "view_func", lambda *_args, **_values: HttpResponse())
        yield


@pytest.mark.slow
def test_every_operation_of_the_api_keeps_its_rule_for_every_caller(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is carried out for the first and the last caller who may; the others meet its rule."""
    known = api_objects(objects())
    team = callers()
    # Written down now and not again, however long this takes.
    monkeypatch.setattr("webapp.accounts.tokens.USED_EVERY", timedelta(days=1))
    for client, headers, _ in team.values():
        client.get("/api/v1/jobs", headers=headers)  # writes when each token was last used
    faults: list[str] = []
    open_ones = []
    before = content()
    for one, method, path, scope in api_routes():
        name = one.view_func.__name__
        url = api_address(name, path, known)
        may = [who for who, (_, _, scopes) in team.items() if scope == "public" or scope in scopes]
        open_ones += [(one, method, url, who, who in (may[0], may[-1])) for who in may]
        for who, (client, headers, _) in team.items():
            if who in may:
                continue
            answer = client.generic(method, url, "{}", content_type="application/json", headers=headers)
            if answer.status_code != (401 if who == "anonymous" else 403):
                faults.append(f"{method} {name} ({scope}) as {who}: {answer.status_code}")
            elif not answer.headers["Content-Type"].startswith("application/problem+json"):
                faults.append(f"{method} {name} as {who}: no problem")
    faults += changed(before)
    for one, method, url, who, done in open_ones:
        client, headers, _ = team[who]
        with nullcontext() if done else nothing_behind(one):
            answer = client.generic(method, url, "{}", content_type="application/json", headers=headers)
        if answer.status_code in (401, 403) or answer.status_code >= 500:
            faults.append(f"{method} {one.view_func.__name__} as {who}: {answer.status_code}")
    assert not faults, "\n".join(faults)
