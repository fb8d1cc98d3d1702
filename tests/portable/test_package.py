"""Packages of tasks: what is in them, that they need nothing of this checkout, and what attempts in them earn."""

from __future__ import annotations

import ast
import asyncio
import base64
import hashlib
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from synthesis.contracts import AnswerField, Attempt, Criterion, RubricVerifier
from synthesis.errors import FormatError, InfrastructureError, InputError
from synthesis.formats.answer_form import build_field_checks
from synthesis.llm import AskedModel, Endpoint
from synthesis.portable.attempt import Limits, get_reward, make_attempt, score_untouched
from synthesis.portable.package import build_package_id
from synthesis.portable.task_file import TaskFile, read_program, write_tasks
from synthesis.runtime import Sandbox
from tests.fixtures.llm import Request, Scripted, call, llm_server, refuse, say
from tests.portable.portable_support import NAMED, TASKS, Script, idle, packaged, portable, solving, unpacked

DATA = f"{NAMED.module}/envarium/portable/data"
ALONE = """
import asyncio, json, sys
from pathlib import Path
from {module}.envarium.llm import AskedModel, Endpoint
from {module}.envarium.portable.attempt import Limits, get_reward, make_attempt
from {module}.envarium.portable.task_file import TaskFile
from {module}.envarium.runtime import get_default_sandbox

tasks = TaskFile(Path({data!r}))
model = AskedModel(Endpoint(name="scripted", base_url={url!r}), "scripted-1")
row = tasks[tasks.heads("train")[0].id]
attempt = asyncio.run(make_attempt(get_default_sandbox(), row, model, Limits()))
print(json.dumps([get_reward(attempt), attempt.outcome, sorted(name for name in sys.modules if name == "synthesis")]))
"""


def made(sandbox: Sandbox, script: Script, at: int = 0, **given: object) -> Attempt:
    with llm_server(script) as server:
        model = AskedModel(Endpoint(name="scripted", base_url=server.url, max_retries=0), "scripted-1")
        return asyncio.run(make_attempt(sandbox, portable(TASKS[at]), model, Limits(), **given))  # type: ignore[arg-type]


def test_a_package_is_a_wheel_that_repeats_to_the_last_byte(tmp_path: Path) -> None:
    found = []
    for turn in ("one", "two"):
        (tmp_path / turn).mkdir()
        found.append(packaged(tmp_path / turn).read_bytes())
    assert found[0] == found[1]
    wheel = tmp_path / "one" / NAMED.wheel
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        info = f"{NAMED.module}-1.0+abc.dist-info"
        record = [line.rsplit(",", 2) for line in archive.read(f"{info}/RECORD").decode().splitlines()]
        assert [name for name, _, _ in record] == names
        for name, digest, size in record[:-1]:
            content = archive.read(name)
            hashed = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            assert (digest, int(size)) == (f"sha256={hashed}", len(content))
        about = archive.read(f"{info}/METADATA").decode()
        assert "Requires-Dist: verifiers>=0.4,<0.5" in about
        assert not any("torch" in line for line in about.splitlines())
        for name in names:
            if name.endswith(".py"):
                wanted = re.findall(
                    r"^\s*(?:from|import) (?:synthesis|training|webapp)\b.*", archive.read(name).decode(), re.M
                )
                assert not wanted, name
        assert ast.get_docstring(ast.parse(archive.read(f"{NAMED.module}/__init__.py"))) == "A 'demo'"
        assert len([name for name in names if name.startswith(f"{DATA}/programs/")]) == len(TASKS)


def test_names_of_packages_are_names_of_modules() -> None:
    assert NAMED.id == "envarium-demo-tasks-1b2c3d4e"
    assert build_package_id("../Ünï <b>", "ds-0000000001") == "envarium-n-b-00000001"
    assert build_package_id("日本", "ds-0000000001").replace("-", "_").isidentifier()


def test_an_attempt_needs_nothing_but_the_package(tmp_path: Path) -> None:
    """In an interpreter that finds the unpacked wheel and installed packages, and not this checkout.

    Without `verifiers`, of which only the taskset is told; `test_verifiers.py` has both.
    """
    there = unpacked(packaged(tmp_path), tmp_path / "there")
    (there / NAMED.module / "__init__.py").write_text("")
    with llm_server(solving) as server:
        script = ALONE.format(module=NAMED.module, data=str(there / DATA), url=server.url)
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=there, capture_output=True, text=True, check=False, timeout=60
        )
    assert done.returncode == 0, done.stderr[-2_000:]
    assert json.loads(done.stdout) == [1.0, "solved", []]


@pytest.mark.parametrize("at", range(len(TASKS)))
def test_rewards_are_the_verdicts_of_the_checks(sandbox: Sandbox, at: int) -> None:
    solved, left = made(sandbox, solving, at), made(sandbox, idle, at)
    assert (get_reward(solved), solved.outcome) == (1.0, "solved")
    assert get_reward(left) == score_untouched(sandbox, portable(TASKS[at])) == 0.0


def test_a_task_with_an_answer_form_keeps_it_and_wants_it_submitted(sandbox: Sandbox, tmp_path: Path) -> None:
    form = (AnswerField(name="day", type="date"),)
    verifier = TASKS[0].rollout.verifier
    checks = (*verifier.checks, *build_field_checks(form, {"day": "2025-01-02"}))
    verifier = verifier.model_copy(update={"checks": checks, "marks": None})
    asked = TASKS[0].rollout.model_copy(update={"answer_form": form, "verifier": verifier})
    write_tasks(tmp_path, "train", [portable(TASKS[0]).model_copy(update={"task": asked})])
    row = TaskFile(tmp_path)[asked.key]
    assert row.task == asked

    def script(request: Request) -> Scripted:
        done = solving(request)
        return done if '"tool_calls"' in done.body else call("submit_answer", day="2025-01-02")

    with llm_server(script) as server:
        model = AskedModel(Endpoint(name="scripted", base_url=server.url, max_retries=0), "scripted-1")
        attempt = asyncio.run(make_attempt(sandbox, row, model, Limits()))
    assert (get_reward(attempt), attempt.answer) == (1.0, '{"day": "2025-01-02"}')
    assert get_reward(made(sandbox, solving)) == 1.0


def test_what_the_infrastructure_spoilt_is_no_reward(sandbox: Sandbox) -> None:
    with pytest.raises(InfrastructureError, match="500"):
        made(sandbox, lambda request: refuse(500, "Out of order."))


def test_a_turn_that_is_not_given_ends_an_attempt_and_what_was_done_is_verified(sandbox: Sandbox) -> None:
    lamps = next(at for at, task in enumerate(TASKS) if task.environment == "lamps")
    first = TASKS[lamps].reference.calls[0]

    def script(request: object) -> object:
        assert isinstance(request, dict)
        return refuse(400, "rollout stopped") if request["_number"] else call(first.tool, **first.arguments)

    attempt = made(sandbox, script, lamps, ended=lambda: "max_turns")  # type: ignore[arg-type]
    assert (get_reward(attempt), attempt.outcome) == (0.5, "agent_error")
    assert "max_turns" in attempt.note
    with pytest.raises(InfrastructureError):
        made(sandbox, script, lamps)  # type: ignore[arg-type]


def test_a_conversation_names_who_plays_the_user(sandbox: Sandbox) -> None:
    row = portable(TASKS[0]).model_copy(update={"setting": "conversation"})
    model = AskedModel(Endpoint(name="nobody", base_url="http://127.0.0.1:9/v1"), "none")
    with pytest.raises(InputError, match=r"harness\.user"):
        asyncio.run(make_attempt(sandbox, row, model, Limits()))


def test_a_rubric_names_who_judges(sandbox: Sandbox) -> None:
    rubric = {"verifier": RubricVerifier(criteria=(Criterion(text="The work is done."),))}
    row = portable(TASKS[0])
    row = row.model_copy(update={"task": row.task.model_copy(update=rubric)})
    told = {"verdicts": [{"criterion": 1, "passed": True, "quote": '"call": '}]}

    def script(request: Request) -> Scripted:
        return say(json.dumps(told)) if request["model"] == "judge-1" else solving(request)

    with llm_server(script) as server:
        endpoint = Endpoint(name="scripted", base_url=server.url, max_retries=0)
        model, judge = AskedModel(endpoint, "scripted-1"), AskedModel(endpoint, "judge-1")
        with pytest.raises(InputError, match=r"harness\.judge"):
            asyncio.run(make_attempt(sandbox, row, model, Limits()))
        assert not server.requests
        attempt = asyncio.run(make_attempt(sandbox, row, model, Limits(), judge=judge))
    assert (get_reward(attempt), attempt.outcome) == (1.0, "solved")
    with pytest.raises(InputError, match="judged by a rubric"):
        score_untouched(sandbox, row)


def test_tasks_are_found_by_name_and_damage_is_told(tmp_path: Path) -> None:
    write_tasks(tmp_path, "train", [portable(task) for task in TASKS])
    kept = TaskFile(tmp_path)
    assert [head.id for head in kept.heads("train")] == [task.rollout.key for task in TASKS]
    assert kept.heads("test") == []
    assert [kept[task.rollout.key] for task in TASKS] == [portable(task) for task in TASKS]
    with pytest.raises(InputError, match="no task 'x'"):
        kept["x"]
    program = next((tmp_path / "programs").iterdir())
    program.write_text(program.read_text() + " ")
    read_program.cache_clear()
    with pytest.raises(FormatError, match="not the program"):
        [kept[task.rollout.key] for task in TASKS]
    (tmp_path / "train.jsonl").write_text("{}\n")
    with pytest.raises(FormatError, match="line 1"):
        TaskFile(tmp_path)
