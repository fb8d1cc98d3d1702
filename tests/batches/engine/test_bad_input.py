"""Bad input of hostile authors and themes meets the real pipeline: one clear message on the item, the others go on."""

from __future__ import annotations

import json

import pytest

from synthesis.formats.records import ToolSpec
from synthesis.scripted.library import load_theme
from tests.batches.real import SHORT, Bad, HostileModel, item, real_batch, real_pipeline, theme_of
from tests.batches.support import work_off
from tests.rollouts_web.support import person
from webapp.batches import services
from webapp.batches.models import Batch, BatchItem, BatchProduct, LLMCall, StageRun
from webapp.environments.models import Environment, Tool
from webapp.scenarios.models import Scenario, Task

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

AT_IMPORT = {
    "hangs": ("def _spin():\n    while True:\n        pass\n\n\nLIMIT = _spin()\n\n", "no answer within 2 seconds"),
    "grows": ("LIMIT = [0] * 10**10\n\n", "limit of memory"),
    "leaves": ("LIMIT = __import__('os')._exit(0)\n\n", "it exited with 0"),
    "ends": ("def _end():\n    raise SystemExit(0)\n\n\nLIMIT = _end()\n\n", "SystemExit"),
    "forks": ("def _fork():\n    while True:\n        __import__('os').fork()\n\n\nLIMIT = _fork()\n\n", "permitted"),
}
"""What an author's program does as soon as it is loaded, and words of the message that says so."""
CHECKS = {
    "scenario-0/task-0": ("    while final_state or True:\n        pass\n", "time"),
    "scenario-0/task-1": ("    __import__('os')._exit(0)\n    return bool(final_state)\n", "two underscores"),
    "scenario-1/task-0": ("    return bool([final_state] * 10**11)\n", "memory"),
    "scenario-1/task-1": ("    while final_state or True:\n        __import__('os').fork()\n", "two underscores"),
}
"""What a check function does when it is called; what reaches the interpreter is refused before that."""
NAMES = ("__init__", "reset", "book a room")


def code(source: str) -> str:
    return f"```python\n{source}```"


def shown(row: BatchItem) -> str:
    """How an item ended, in one line."""
    return f"{row.path}: {row.state} in {row.stage} ({row.reason}): {row.message[:600]}"


def require_kept_below(batch: Batch, key: str, scenarios: int = 1, tasks: int = 1, runs: int = 1) -> None:
    """Whatever happened to others, this theme went all the way."""
    rows = list(BatchItem.objects.filter(batch=batch, path__startswith=key))
    assert [shown(row) for row in rows if row.state != "kept"] == []
    assert len(rows) == 1 + scenarios + scenarios * tasks + scenarios * tasks * runs


def require_clear(row: BatchItem, state: str, stage: str, reason: str, *words: str) -> None:
    """The item says how it ended, on one line that holds these words; nothing was made of it."""
    assert (row.state, row.stage, row.reason) == (state, stage, reason), shown(row)
    assert [word for word in words if word not in row.message] == [], shown(row)
    assert "Traceback" not in row.message
    assert len(row.message) < 1_500
    assert row.signature
    assert not BatchProduct.objects.filter(item=row).exists()
    assert not row.children.exists()


def whole_program(first: str) -> str:
    """A bundled program, as a repair gives it, with these words before it."""
    fragments = load_theme("badge-desk").fragments
    methods = "".join(fragments.methods.values()).splitlines(keepends=True)
    return first + fragments.attributes + "".join(f"    {line}" if line.strip() else line for line in methods)


def test_programs_that_hang_grow_leave_or_fork_when_they_are_loaded() -> None:
    bad, user = [], person("operator")
    for name, (evil, _) in AT_IMPORT.items():
        fragment, repair = evil + load_theme("badge-desk").fragments.attributes, whole_program(evil)
        key = f"badge-desk__{name}"
        bad += [Bad(key, "code_attributes", code(fragment)), Bad(key, "repair", code(repair))]
    keys = [*(f"badge-desk__{name}" for name in AT_IMPORT), "radio-rundown"]
    with real_pipeline(HostileModel(bad)) as model:
        batch = work_off(real_batch(user, [theme_of(key) for key in keys]))
        for name, (_, words) in AT_IMPORT.items():
            row = item(batch, f"badge-desk__{name}")
            require_clear(row, "rejected", "assemble", "invalid_program", "after 1 round of repair", words)
        require_kept_below(batch, "radio-rundown")
        assert Environment.objects.count() == Scenario.objects.count() == Task.objects.count() == 1
        # The author comes to reason: a retry takes the same item all the way.
        model.bad.clear()
        services.retry_items(user, batch.pk, item=item(batch, "badge-desk__hangs").pk)
        work_off(batch)
        require_kept_below(batch, "badge-desk__hangs")
    assert (batch.state, Environment.objects.count()) == ("done", 2)


def test_checks_that_hang_leave_grow_or_fork() -> None:
    head = "def check(initial_state, final_state, answer):\n"
    bad = [
        Bad("badge-desk", "check_function", code(head + body), below, sample=0) for below, (body, _) in CHECKS.items()
    ]
    stages = SHORT.model_copy(update={"scenarios": 2, "tasks": 2, "teacher_runs": 0})
    with real_pipeline(HostileModel(bad)):
        batch = work_off(real_batch(person("operator"), [theme_of("badge-desk"), theme_of("radio-rundown")], stages))
    for below, (_, words) in CHECKS.items():
        row = item(batch, f"badge-desk/{below}")
        require_clear(row, "rejected", "checks", "check_invalid", "Asked again, the reply stayed unfit", words)
    require_kept_below(batch, "radio-rundown", 2, 2, 0)
    assert Task.objects.filter(environment__key="badge-desk").count() == 0
    assert Task.objects.count() == 4


def test_a_state_of_ten_megabytes() -> None:
    """As a reply, which is not read, and as ballast of a program, which is repaired or rejected."""
    large = {"name": "Far too much", "state": {"badges": {f"B-{n}": {"note": "x" * 1_000} for n in range(10_000)}}}
    first = 'self.today: str = state.get("today", "2026-06-01")\n'
    ballast = f'{first}        self.notes: str = state.get("notes", "x" * 10_000_000)\n'
    heavy = code(load_theme("badge-desk").fragments.attributes.replace(first, ballast))
    assert "10_000_000" in heavy
    bad = [
        Bad("badge-desk", "initial_state", json.dumps(large), "scenario-0"),
        Bad("badge-desk__mended", "code_attributes", heavy),
        Bad("badge-desk__heavy", "code_attributes", heavy),
        Bad("badge-desk__heavy", "repair", code(whole_program("").replace(first, ballast))),
    ]
    keys = ("badge-desk", "badge-desk__mended", "badge-desk__heavy", "radio-rundown")
    with real_pipeline(HostileModel(bad)):
        batch = work_off(real_batch(person("operator"), [theme_of(key) for key in keys]))
    require_clear(item(batch, "badge-desk/scenario-0"), "rejected", "state", "state_invalid", "1,000,000")
    heavy_one = item(batch, "badge-desk__heavy")
    require_clear(heavy_one, "rejected", "assemble", "invalid_program", "self.notes takes 10,000,002 bytes")
    require_kept_below(batch, "badge-desk__mended")
    require_kept_below(batch, "radio-rundown")
    assert Scenario.objects.count() == 2


def test_tools_that_no_program_can_have() -> None:
    """An author who insists on such names fails; a server's specification that has them becomes a good environment."""
    operations = [
        {"name": name, "description": "Does what it says.", "kind": kind}
        for name, kind in zip((*NAMES, *(f"tool_{n}" for n in range(8))), ["query", "change"] * 6, strict=False)
    ]
    bad = [Bad("badge-desk__named", "plan_operations", json.dumps({"operations": operations}))]
    spec = tuple(ToolSpec(name=name, description="A server's own tool.") for name in NAMES)
    themes = [theme_of("badge-desk__named"), theme_of("badge-desk__served", tools=spec), theme_of("radio-rundown")]
    with real_pipeline(HostileModel(bad)) as model:
        batch = work_off(real_batch(person("operator"), themes))
    row = item(batch, "badge-desk__named")
    require_clear(row, "failed", "plan", "malformed", "plan_operations", *(repr(name) for name in NAMES))
    assert LLMCall.objects.get(key=row.call_key).reply_id
    require_kept_below(batch, "badge-desk__served")
    require_kept_below(batch, "radio-rundown")
    assert any("'book a room'" in call.messages[0].content for call in model.asked if call.site.stage == "plan_state")
    assert not Tool.objects.filter(name__in=NAMES).exists()


def test_a_theme_of_a_megabyte() -> None:
    """Whoever wrote it into the tables: it is compared, refused before anybody is asked, and named in few words."""
    long = theme_of("badge-desk__long", description="All about badges. " * 60_000)
    with real_pipeline(HostileModel()) as model:
        batch = work_off(real_batch(person("operator"), [long, theme_of("radio-rundown")]))
        words = ("characters", "8,000", "Shorten its description")
        require_clear(item(batch, "badge-desk__long"), "rejected", "plan", "theme_too_long", *words)
        require_kept_below(batch, "radio-rundown")
        assert not [call for call in model.asked if call.site.theme == "badge-desk__long"]


def test_junk_in_place_of_every_reply_is_never_data() -> None:
    junk = {
        "nothing": "",
        "binary": "".join(map(chr, range(1, 256))) * 40,
        "deep": '{"a":' * 50_000,
        "numbers": '{"introduction": NaN, "entities": 1e999, "rules": 12}',
        "other": json.dumps({"anything": "else", "\ud800": "\x00"}),
        "long": "{" + " " * 2_000_000 + "}",
    }
    bad = [Bad(f"badge-desk__{name}", "plan_state", text) for name, text in junk.items()]
    keys = [*(f"badge-desk__{name}" for name in junk), "radio-rundown"]
    with real_pipeline(HostileModel(bad)):
        batch = work_off(real_batch(person("operator"), [theme_of(key) for key in keys]))
    for name in junk:
        row = item(batch, f"badge-desk__{name}")
        require_clear(row, "failed", "plan", "malformed", "no usable reply in 3 tries (plan_state)")
        assert not StageRun.objects.filter(item=row, stage="plan", output__isnull=False).exists()
    require_kept_below(batch, "radio-rundown")
