"""Every route of the site carries an access rule, and keeps it for every role."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.db import connection
from django.template.backends.django import Template
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from tests.assessment import rows as assessed
from tests.datasets.dataset_support import carry_out
from tests.fixtures import pages_seed, replay_seed, runs_seed
from webapp.accounts.access import SCOPE_WORDS, SCOPES
from webapp.accounts.models import Role, User
from webapp.accounts.tokens import create_token
from webapp.api import api, scope_of
from webapp.batches.models import Batch, Body, LLMCall
from webapp.content_store import store
from webapp.datasets.file_uploads import store_file
from webapp.datasets.models import StoredFile
from webapp.datasets.services import uploaded
from webapp.endpoints.models import Endpoint
from webapp.jobs.models import JobState
from webapp.runs.models import RolloutFile
from webapp.scenarios.models import Audit, Playground
from webapp.taxonomy.models import Decision, Grouping, Node, NodeCounts, Theme, ThemeSource
from webapp.trajectories.models import Rollout, Trajectory
from webapp.trajectories.rollouts.spec import Spec

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


def a_rollout(run: Trajectory) -> Rollout:
    """A queued one, with one attempt."""
    job = pages_seed.job(JobState.QUEUED)
    row = Rollout.objects.create(
        job=job, task=run.task, revision=run.revision, policy="reference", spec=Spec().model_dump(), total=1
    )
    row.attempts.create(ordinal=0)
    return row


def a_grouping() -> Grouping:
    """Of nothing, with its decision."""
    decision = Decision.objects.create(kind="grouping", words="Grouped no themes")
    return Grouping.objects.create(decision=decision, threshold=0.8, vectoriser="none", themes=0, groups=0, folded=0)


def a_batch() -> dict[str, Any]:
    """A draft with one theme, and a call."""
    batch = Batch.objects.create(name="a batch")
    item = batch.items.create(level="theme", path="a-theme", stage="discover")
    item.runs.create(stage="discover", state="kept")
    [request] = store(Body, [{}])
    call = LLMCall.objects.create(
        key="0" * 64, batch=batch, path="a-theme", role="author", stage="plan", request=request
    )
    return {"batch": batch, "item": item, "call": call}


def a_training(run: Trajectory) -> dict[str, Any]:
    """A job after two steps, its dataset, an uploaded file, and an attempt whose file is gone."""
    job = runs_seed.training_job(steps=2, environments=1)
    job.checkpoints.create(attempt=1, step=2)
    file = RolloutFile.objects.create(job=job, attempt=1, step=1, sha256="0" * 64, count=1)
    rollout = file.rollouts.create(index=0, row="a-row", task=run.task, revision=run.revision, outcome="failed")
    stored = StoredFile.objects.create(filename="rows.jsonl", kind="tasks", bytes=2)
    return {"training": job, "rollout_of_step": rollout, "stored_file": stored}


def a_dataset() -> dict[str, Any]:
    """Of an uploaded file, frozen by its job; and the file."""
    line = b'{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}'
    file = store_file(None, ContentFile(line, name="talks.jsonl"))
    return {"dataset": carry_out(uploaded(None, file)), "file": file}


def objects() -> dict[str, Any]:
    """One of everything that an address may name."""
    run = replay_seed.make(replay_seed.ordinary())
    version = run.task.scenario.version
    node = Node.objects.create(level=1, name="Health", path="health")
    NodeCounts.objects.create(node=node)
    owner = pages_seed.person(Role.ANNOTATOR)
    assessment = assessed.saved(4, version=version)
    audit = Audit.objects.create(
        revision=run.revision, key="0" * 64, verifier_hash="0" * 64, audit_version=1, state="green"
    )
    return {
        "run": run,
        "version": version,
        "tool": version.tools.first() or version.tools.create(position=0, name="look", kind="query"),
        "check": run.revision.checks.get(position=0),
        "play": Playground.objects.create(user=owner, version=version, now="2025-01-01T09:00:00+00:00"),
        "job": pages_seed.job(JobState.QUEUED),
        "rollout": a_rollout(run),
        "node": node,
        "theme": Theme.objects.create(node=node, source="made", key="t", name="A theme", content_hash="0" * 64),
        "source": ThemeSource.objects.create(name="made", origin="tasks"),
        "grouping": a_grouping(),
        "endpoint": Endpoint.objects.create(name="an endpoint", base_url="http://127.0.0.1:9/v1"),
        "token": create_token(None, owner, "a test", ["read"])[0],
        "owner": owner,
        "audit": audit,
        "assessment": assessment,
        "case": assessment.cases.get(position=0),
        **a_batch(),
        **a_dataset(),
        **a_training(run),
    }


@pytest.fixture
def arguments(db: None) -> dict[str, dict[str, Any]]:
    """What each route's arguments are: by route name, else by its namespace."""
    made = objects()
    run = made["run"]
    return {
        "accounts": {"pk": made["owner"].pk},
        "accounts:revoke_token": {"pk": made["token"].pk},
        "batches": {"pk": made["batch"].pk},
        "batches:item": {"pk": made["item"].pk},
        "batches:keep": {"pk": made["item"].pk},
        "batches:output": {"pk": made["item"].pk, "stage": "discover"},
        "batches:call": {"pk": made["call"].pk},
        "endpoints": {"pk": made["endpoint"].pk},
        "environments": {"pk": run.environment_id, "a": 1, "b": 1},
        "environments:of_node": {"pk": made["node"].pk},
        "environments:assessment": {"pk": made["assessment"].pk},
        "environments:start_rerun": {"pk": made["assessment"].pk},
        "environments:case": {"pk": made["case"].pk},
        "jobs": {"pk": made["job"].pk},
        "runs": {
            "job": made["training"].public_id,
            "step": 1,
            "task": run.task_id,
            "dataset": made["training"].dataset.public_id,
        },
        "runs:checkpoint_file": {"job": made["training"].public_id, "pk": 1},
        "runs:rollout": {"job": made["training"].public_id, "pk": made["rollout_of_step"].pk},
        "datasets": {"dataset": made["dataset"].public_id, "side": "train"},
        "datasets:file": {"file": made["file"].public_id},
        "scenarios": {"pk": run.task_id, "a": 1, "b": 1},
        "scenarios:of_environment": {"pk": run.environment_id},
        "scenarios:state": {"pk": run.task.scenario_id},
        "scenarios:check": {"pk": made["check"].pk},
        "scenarios:try": {"pk": made["version"].pk},
        "scenarios:playground": {"pk": made["play"].pk},
        "taxonomy": {"pk": made["node"].pk},
        "taxonomy:theme": {"pk": made["theme"].pk},
        "taxonomy:keep_apart": {"pk": made["theme"].pk},
        "taxonomy:choose_theme": {"pk": made["theme"].pk},
        "taxonomy:source": {"pk": made["source"].pk},
        "taxonomy:undo_decision": {"pk": made["grouping"].decision_id},
        "trajectories": {"pk": run.pk, "index": 1, "position": 0, "task_pk": run.task_id},
        "trajectories:rollout": {"pk": made["rollout"].pk},
    }


def api_objects(made: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What stands in the paths of the API's operations, by their first part."""
    run = made["run"]
    return {
        "assessments": {"pk": made["assessment"].pk},
        "audits": {"pk": made["audit"].pk},
        "batches": {"pk": made["batch"].pk},
        "batch-items": {"pk": made["item"].pk},
        "llm-calls": {"pk": made["call"].pk},
        "datasets": {"dataset": made["dataset"].public_id},
        "endpoints": {"pk": made["endpoint"].pk},
        "exports": {"job": made["job"].pk},
        "environments": {"pk": run.environment_id, "number": 1},
        "files": {"file": made["file"].public_id},
        "fine_tuning": {
            "job": made["training"].public_id,
            "checkpoint": made["training"].checkpoints.get().public_id,
            "path": "config.json",
        },
        "training": {
            "worker": made["training"].worker,
            "job": made["training"].public_id,
            "number": 1,
            "step": 1,
            "checkpoint": "ftckpt-none",
        },
        "jobs": {"pk": made["job"].pk},
        "rollouts": {"job": made["rollout"].job_id},
        "scenarios": {"pk": run.task.scenario_id},
        "tasks": {"pk": run.task_id, "number": 1},
        "taxonomy": {"pk": made["node"].pk},
        "themes": {"pk": made["theme"].pk},
        "theme-decisions": {"pk": made["grouping"].decision_id},
        "theme-groupings": {"pk": made["grouping"].pk},
        "tool-cases": {"pk": made["case"].pk},
        "tools": {"pk": made["tool"].pk},
        "trajectories": {"pk": run.pk, "index": 1},
    }


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


def api_routes() -> Iterator[tuple[str, str, str, str]]:
    """(operation, method, path with {names}, scope) of every operation."""
    for bound in api._get_bound_routers():
        for path, view in bound.path_operations.items():
            plain = re.sub(r"{(\w+):\w+}", r"{\1}", path)
            for one in view.operations:
                for method in one.methods:
                    yield one.view_func.__name__, method, f"{bound.prefix}{plain}", scope_of(one) or ""


def api_address(name: str, path: str, known: dict[str, dict[str, Any]]) -> str:
    objects = known.get(path.strip("/").split("/")[0], {})
    missing = set(re.findall("{([^}]+)}", path)) - set(objects)
    assert not missing, f"{name} needs {missing}: give this test an object for {path} in `api_objects`."
    return "/api/v1" + path.format(**objects)


def test_every_operation_of_the_api_has_a_rule_and_a_name_of_its_own() -> None:
    known = {"public", *SCOPES[Role.ADMIN]}
    rows = list(api_routes())
    faults = [f"{name} ({path})" for name, _, path, scope in rows if scope not in known]
    assert not faults, f"without auth=needs(...), or with more than one rule: {faults}"
    names = Counter(name for name, method, *_ in rows if method != "HEAD")
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


def test_every_operation_of_the_api_keeps_its_rule_for_every_caller(db: None) -> None:
    known = api_objects(objects())
    team = callers()
    for client, headers, _ in team.values():
        client.get("/api/v1/jobs", headers=headers)  # writes when each token was last used
    faults: list[str] = []
    open_ones = []
    before = content()
    for name, method, path, scope in api_routes():
        url = api_address(name, path, known)
        for who, (client, headers, scopes) in team.items():
            if scope == "public" or scope in scopes:
                open_ones.append((name, method, url, who))
                continue
            answer = client.generic(method, url, "{}", content_type="application/json", headers=headers)
            if answer.status_code != (401 if who == "anonymous" else 403):
                faults.append(f"{method} {name} ({scope}) as {who}: {answer.status_code}")
            elif not answer.headers["Content-Type"].startswith("application/problem+json"):
                faults.append(f"{method} {name} as {who}: no problem")
    faults += changed(before)
    for name, method, url, who in open_ones:
        client, headers, _ = team[who]
        answer = client.generic(method, url, "{}", content_type="application/json", headers=headers)
        if answer.status_code in (401, 403) or answer.status_code >= 500:
            faults.append(f"{method} {name} as {who}: {answer.status_code}")
    assert not faults, "\n".join(faults)
