"""The house's directions, read from the imports themselves. A broken one names file, line and rule."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.architecture.source_files import ROOT, nodes_of, sources, text_of, tree_of

APPS = ["common", "accounts", "lists", "events", "jobs", "endpoints", "webhooks", "taxonomy", "environments"]
APPS += ["scenarios", "trajectories", "review", "labelling", "batches", "datasets", "runs", "workers", "edits", "pages"]
FLOORS: list[set[str]] = [
    {"contracts", "errors", "collector", "syntax", "prompts", "formats", "drafts", "parser", "variant_settings"}
    | {"json_weight", "json_reader"},
    {"runtime", "llm"},
    {"stages"},
    {"verifiers", "themes", "taxonomy", "skeleton", "assessment"},
    {"rollout", "scenarios", "tool_documents"},
    {"tasks", "starter", "scripted", "portable"},
    {"tool_graph", "programmatic"},
    {"tool_walk"},
    {"stage_adapters"},
    {"pipeline", "seeded_faults"},
]
TRAINING_MAY = {
    "contracts",
    "errors",
    "collector",
    "formats",
    "json_reader",
    "json_weight",
    "parser",
    "runtime",
    "rollout",
    "verifiers",
    "llm",
}
WEBAPP_MAY_OF_TRAINING = {
    "config",
    "dataset",
    "examples",
    "job",
    "main_memory",
    "memory",
    "metrics",
    "presets",
    "rewards",
    "sampler",
    "schedule",
}
TRAINING_FLOORS: list[set[str]] = [
    {"config"},
    {"presets", "dataset", "metrics", "schedule", "sampler", "rewards", "job", "lifeline", "memory", "main_memory"},
    {"worker", "examples", "reports"},
    {"objective", "chat"},
    {"templates"},
    {"model_loader", "placement"},
    {"policy"},
    {"turn_policy"},
    {"engines", "attempts"},
    {"step_record"},
    {"step"},
    {"trainer", "evaluate", "chat_server"},
    {"trainer_callbacks"},
    {"supervised"},
    {"sft", "rl"},
    {"job_setup"},
    {"evaluation"},
    {"launch"},
    {"demo"},
]
WITHOUT_TORCH = TRAINING_FLOORS[0] | TRAINING_FLOORS[1] | TRAINING_FLOORS[2]
"""What the web app shows, what decides without computing, and the worker, whose child computes."""
HEAVY = {"torch", "trl", "transformers", "datasets", "accelerate", "peft", "vllm", "numpy"}
CHILD_ROOM = "synthesis.runtime.child"
LAYERS = {0: r"models", 1: r"(\w+_)?(services|queries)", 2: r"(\w+_)?(views|api|forms|jobs|urls)"}
"""Of an app, lowest first, by the names of its modules at any depth. A module of another name is domain code."""


def module_name(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Every imported module with its line; `from a import b` gives `a.b`, which a module may be."""
    package = module_name(path) if path.name == "__init__.py" else module_name(path).rpartition(".")[0]
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"


@cache
def edges(*folders: str) -> list[tuple[str, str, str]]:
    """(place, importing module, imported module) of every import below `folders`."""
    found = []
    for path in sources(*folders):
        name = module_name(path)
        found += [(f"{path.relative_to(ROOT)}:{line}", name, target) for line, target in imports(path)]
    return found


def head(module: str, depth: int) -> str:
    parts = module.split(".")
    return parts[depth] if len(parts) > depth else ""


def test_webapp_takes_of_training_only_what_needs_no_torch() -> None:
    wrong = [
        (place, target)
        for place, _, target in edges("webapp")
        if head(target, 0) in HEAVY - {"numpy"}
        or (head(target, 0) == "training" and head(target, 1) not in WEBAPP_MAY_OF_TRAINING)
    ]
    assert not wrong


def test_training_takes_of_synthesis_only_what_a_gpu_box_needs() -> None:
    wrong = [
        (place, target)
        for place, _, target in edges("training")
        if head(target, 0) == "synthesis" and head(target, 1) not in TRAINING_MAY
    ]
    assert not wrong


def test_synthesis_and_training_know_no_django() -> None:
    banned = {"django", "webapp", "celery", "ninja"}
    wrong = [(p, t) for p, _, t in edges("synthesis", "training") if head(t, 0) in banned]
    wrong += [(p, t) for p, _, t in edges("synthesis") if head(t, 0) == "training"]
    assert not wrong


def test_runtime_needs_the_standard_library_and_pydantic_alone() -> None:
    allowed = set(sys.stdlib_module_names) | {"pydantic", "synthesis"}
    wrong = [(p, t) for p, _, t in edges("synthesis/runtime") if head(t, 0) not in allowed]
    assert not wrong


def test_runtime_child_needs_the_standard_library_alone() -> None:
    """Including what it imports of its own room: nothing outside the child's folder comes along."""
    children = [e for e in edges("synthesis/runtime") if e[1].startswith(CHILD_ROOM)]
    assert children, "the child's room is gone: name the new one here"
    own = {path.stem for path in (ROOT / "synthesis/runtime/child").glob("*.py")}
    allowed = set(sys.stdlib_module_names) | own
    wrong = [
        (place, target)
        for place, _, target in children
        if head(target, 0) not in allowed and not target.startswith(CHILD_ROOM)
    ]
    assert not wrong


def floor_of(module: str) -> int | None:
    if module == CHILD_ROOM or module.startswith(f"{CHILD_ROOM}."):
        return 0  # needs the standard library alone, so it stands below everything
    name, floors = head(module, 1), FLOORS if head(module, 0) == "synthesis" else TRAINING_FLOORS
    return next((number for number, floor in enumerate(floors) if name in floor), None)


@pytest.mark.parametrize("house", ["synthesis", "training"])
def test_floors_use_lower_floors_only(house: str) -> None:
    wrong = []
    for place, origin, target in edges(house):
        if head(target, 0) != house or head(origin, 1) == head(target, 1):
            continue
        here, there = floor_of(origin), floor_of(target)
        if here is None or there is None or there > here or (here == there and here > 0):
            wrong.append((place, origin, target))
    assert not wrong


@pytest.mark.parametrize(("house", "floors"), [("synthesis", FLOORS), ("training", TRAINING_FLOORS)])
def test_every_room_stands_on_a_floor(house: str, floors: list[set[str]]) -> None:
    rooms = {p.stem if p.is_file() else p.name for p in (ROOT / house).iterdir() if p.name[0] not in "_."}
    assert rooms <= set().union(*floors)


@pytest.mark.parametrize(
    ("house", "rooms", "kept_out"),
    [
        ("training", sorted(WITHOUT_TORCH), HEAVY | {"django", "webapp"}),
        (
            "synthesis",
            ["contracts", "runtime", "formats", "prompts", "llm.client", "verifiers", "rollout"],
            {"django", "webapp"},
        ),
    ],
)
def test_rooms_import_without_what_is_kept_out(house: str, rooms: list[str], kept_out: set[str]) -> None:
    """By importing one after the other, so that what comes along through others is seen too; the first is named."""
    code = (
        "import importlib, sys\n"
        f"for room in {rooms!r}:\n"
        f"    importlib.import_module(f'{house}.{{room}}')\n"
        f"    came = {kept_out!r} & set(sys.modules)\n"
        "    came and sys.exit(f'{room} brings {came}')\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")


def app_of(module: str) -> str:
    """The app of a module; a room of `webapp.common` that knows accounts is one of its own."""
    own = head(module, 2) in {"rest", "lists", "events"}
    return head(module, 2) if head(module, 1) == "common" and own else head(module, 1)


def test_lower_apps_do_not_know_upper_ones() -> None:
    order = {name: number for number, name in enumerate(APPS)}
    wrong = []
    for place, origin, target in edges("webapp"):
        here, there = app_of(origin), app_of(target)
        if head(target, 0) == "webapp" and here in order and there in order and order[there] > order[here]:
            wrong.append((place, target))
    assert not wrong


def test_the_root_of_the_web_app_holds_apps_and_entry_points() -> None:
    modules = {path.stem for path in (ROOT / "webapp").glob("*.py")}
    assert modules == {"__init__", "settings", "urls", "api", "asgi", "celery"}


def test_what_routers_share_knows_no_router() -> None:
    """`webapp/common/rest` stands on accounts and the broker; routers stand on it, and `webapp/api.py` on them."""
    below = (
        "webapp.accounts",
        "webapp.common.broker",
        "webapp.common.database.connections",
        "webapp.common.paging",
        "webapp.common.rest",
    )
    below += ("webapp.common.disk", "webapp.common.errors", "webapp.common.error_responses")
    wrong = [
        (p, t) for p, _, t in edges("webapp/common/rest") if head(t, 0) == "webapp" and not t.startswith((*below,))
    ]
    above = {"webapp.urls", "webapp.pages.api_reference"}
    wrong += [(p, t) for p, o, t in edges("webapp") if t.startswith("webapp.api") and o not in above]
    assert not wrong


def test_only_the_api_speaks_of_problems() -> None:
    """Domain code and pages raise errors of the domain; `webapp.common.rest.problems` alone makes problems of them."""
    boundary = {"webapp.api", "webapp.asgi", "webapp.pages.api_reference"}
    wrong = [
        (place, target)
        for place, origin, target in edges("webapp")
        if target.startswith("webapp.common.rest.problems")
        and not origin.startswith("webapp.common.rest.")
        and origin not in boundary
        and not re.fullmatch(r"(\w+_)?api", origin.rpartition(".")[2])
    ]
    assert not wrong


def test_one_module_reads_query_parameters() -> None:
    """Pages read them through `webapp.common.query_params.Params`; the API declares its own."""
    wrong = []
    for path in sources("webapp"):
        if path.stem == "api" or path.stem.endswith("_api") or "rest" in path.parts:
            continue
        for node in nodes_of(path):
            read = isinstance(node, ast.Subscript) or (
                isinstance(node, ast.Attribute) and node.attr in ("get", "getlist")
            )
            if read and isinstance(node.value, ast.Attribute) and node.value.attr == "GET":
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not wrong


def test_one_module_looks_at_htmx_headers() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sources("webapp")
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute) and node.attr == "htmx" and path != ROOT / "webapp/common/htmx.py"
    ]
    assert not wrong


def layer_of(module: str) -> int | None:
    name = module.rpartition(".")[2]
    return next((number for number, pattern in LAYERS.items() if re.fullmatch(pattern, name)), None)


def module_of(target: str) -> str:
    """The module that is imported: `a.b` may be a name in the module `a`."""
    path = ROOT / target.replace(".", "/")
    return target if path.is_dir() or path.with_suffix(".py").exists() else target.rpartition(".")[0]


def test_apps_call_downwards_inside() -> None:
    """Models know nothing of services, and domain code nothing of views, endpoints, forms and jobs."""
    wrong = []
    for place, origin, target in edges("webapp"):
        if head(target, 0) != "webapp" or app_of(origin) != app_of(target) or ".management." in origin:
            continue
        here, there = layer_of(origin), layer_of(module_of(target))
        # A background job's services enqueue its Celery task.
        allowed = origin == "webapp.jobs.services" and module_of(target) == "webapp.jobs.jobs"
        if ((there == 2 and here != 2) or (there == 1 and here == 0)) and not allowed:
            wrong.append((place, target))
    assert not wrong


def test_services_handle_no_requests() -> None:
    """What decides can be called by a command, a job and a test as by a page."""
    banned = re.compile(r"django\.(shortcuts|forms)|django\.http\.Http(Request|Response)|ninja\.(?!Schema)")
    wrong = [
        (place, target)
        for place, origin, target in edges("webapp")
        if banned.match(target) and re.fullmatch(r"models|(\w+_)?(services|queries)", origin.rpartition(".")[2])
    ]
    assert not wrong


def test_modules_form_no_circle() -> None:
    """Also through imports inside functions, which only hide one."""
    known = {module_name(path) for path in sources("webapp", "synthesis", "training")}
    graph: dict[str, set[str]] = {name: set() for name in known}
    for _, origin, target in edges("webapp", "synthesis", "training"):
        module = module_of(target)
        if module in known and module != origin:
            graph[origin].add(module)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from error


def test_no_signals() -> None:
    wrong = [(p, t) for p, _, t in edges("webapp") if t.startswith(("django.db.models.signals", "django.dispatch"))]
    assert not wrong


def test_files_and_functions_stay_small() -> None:
    wrong = []
    for path in sources("webapp", "synthesis", "training", "tests"):
        name = str(path.relative_to(ROOT))
        if "/migrations/" in name or (name.startswith("synthesis/starter/") and path.name == "program.py"):
            continue
        text = text_of(path)
        if text.count("\n") >= 400:
            wrong.append(f"{name}: {text.count(chr(10))} lines")
        for node in nodes_of(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                size = (node.end_lineno or 0) - node.lineno + 1
                if size > 60:
                    wrong.append(f"{name}:{node.lineno} {node.name}: {size} lines")
    assert not wrong


def test_classes_say_what_they_are() -> None:
    """Names that could be anything stood for up to six things at once."""
    vague = {"Setting", "Group", "Run", "Ending", "Refused", "Kind", "Line", "Row", "Part", "Choice", "Answer", "State"}
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in sources("webapp", "synthesis", "training")
        for node in tree_of(path).body
        if isinstance(node, ast.ClassDef) and node.name in vague and "starter" not in path.parts
    ]
    assert not wrong
