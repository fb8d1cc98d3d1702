"""The child that a worker starts: a job's folder in, record, model and exit status out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from synthesis.rollout import RolloutTask

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

pytestmark = pytest.mark.slow  # loads torch
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

from synthesis.runtime import get_default_sandbox  # noqa: E402
from synthesis.verifiers.call_sequences import Subject  # noqa: E402
from synthesis.verifiers.frame import build_frame_key  # noqa: E402
from synthesis.verifiers.reference_frame import build_reference_frame  # noqa: E402
from tests.training import small  # noqa: E402
from training.config import read_config  # noqa: E402
from training.dataset import Split, freeze_dataset_folder  # noqa: E402
from training.demo.prepare import prepare_demo  # noqa: E402
from training.examples import datasets  # noqa: E402
from training.examples.tasks import ENVIRONMENTS, draw_tasks  # noqa: E402
from training.job import MODEL, RECORD, RESULT, SPENT, Exit  # noqa: E402
from training.launch import main  # noqa: E402
from training.metrics import Position, read_records  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
STEPS = 8
"""Of a job that is stopped twice, each time a step or two further on."""
EVALUATION = {"tasks": 4, "turns": 1}
SFT = {"epochs": 0.5, "evaluation": EVALUATION, "hardware": {"sharding": "fsdp2", "offload": True}}
RL = {
    "steps": 2, "evaluation": EVALUATION, "sampling": {"rollouts": 2}, "decoding": {"turn_tokens": 8},
    "limits": {"checkpoint_every": 1},
}  # fmt: skip


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> Path:
    """A small demo whose SFT job was carried out."""
    folder = tmp_path_factory.mktemp("demo")
    each, datasets.EACH = datasets.EACH, 8
    try:
        prepare_demo(folder, 0, 1, {"sft": SFT, "rl": RL})
    finally:
        datasets.EACH = each
    assert main([str(folder / "sft")]) == Exit.DONE
    return folder


def job(demo: Path, name: str, **changes) -> Path:
    """A copy of the RL job with changed fields of `job.json`, or of its configuration (a dict)."""
    folder = demo / name
    folder.mkdir()
    told = json.loads((demo / "rl" / "job.json").read_text())
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(told[key], dict):
            for inner, entry in value.items():
                told[key][inner] = told[key][inner] | entry if isinstance(entry, dict) else entry
        else:
            told[key] = value
    (folder / "job.json").write_text(json.dumps(told))
    return folder


def records(folder: Path) -> list:
    return read_records(folder / RECORD, Position())[0]


def last_error(folder: Path) -> str:
    last = records(folder)[-1]
    assert last.kind == "event"
    assert last.level == "error"
    return last.message


def test_demo_goes_through_both_jobs(demo: Path) -> None:
    assert main([str(demo / "rl")]) == Exit.DONE
    for name, steps in (("sft", [0]), ("rl", [0, 2])):
        result = json.loads((demo / name / RESULT).read_text())
        assert result["ended"] == "done"
        assert [told["step"] for told in result["evaluations"]][: len(steps)] == steps
        files = {path.name for path in (demo / name / MODEL).iterdir()}
        assert {"model.safetensors", "tokenizer.json", "chat_template.jinja", "config.json"} <= files
        assert not {path for path in files if path.endswith((".bin", ".pt", ".pth"))}
    assert records(demo / "rl")[-1].data == {"ended": "done"}
    assert "whole model" not in (demo / "rl" / RECORD).read_text(), "nothing was to be spread"


def test_what_is_to_be_spread_where_there_is_one_process_trains_as_one_and_says_so(demo: Path) -> None:
    place, told = [one for one in records(demo / "sft") if one.kind == "event"][:2]
    assert (place.data["sharding"], place.data["offload"]) == ("copies", False)
    assert told.level == "warn"
    assert "one process holds the whole model. Nothing is offloaded" in told.message


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model": "../nowhere"}, "holds no model"),
        ({"dataset": "../nowhere"}, "holds no frozen dataset"),
        ({"dataset": "../trajectories"}, "learns from tasks, this dataset holds trajectories"),
        ({"config": {"steps": 0}}, "config.reinforcement.steps"),
        ({"config": {"sampling": {"environments": 40, "tasks": 80}}}, "sampling.environments"),
        ({"config": {"optimiser": {"precision": "bf16"}}}, "optimiser.precision"),
        ({"config": {"decoding": {"trajectory_tokens": 2048}}}, "the model's window is 1024"),
        ({"config": {"decoding": {"trajectory_tokens": 16}}}, "before the agent's first turn"),
    ],
)
def test_bad_input_is_a_sentence_in_the_record(demo: Path, request, changes: dict, reason: str) -> None:
    folder = job(demo, f"bad-{request.node.callspec.id.replace('/', '')}"[:40], **changes)
    assert main([str(folder)]) == Exit.INPUT
    assert reason in last_error(folder)


def test_missing_job_and_wrong_call_are_refused(tmp_path, capsys) -> None:
    assert main([]) == Exit.INPUT
    assert main([str(tmp_path)]) == Exit.INPUT
    assert "there is no job here" in last_error(tmp_path)


def test_program_that_no_longer_loads_is_named(demo: Path) -> None:
    tasks = draw_tasks(3, 2)
    rows = [datasets.build_task_row(task) for task in tasks]
    broken = rows[0].rollout.program.model_copy(update={"source": "import socket\nclass Clinic:\n    pass\n"})
    rows[0] = rows[0].model_copy(update={"rollout": rows[0].rollout.model_copy(update={"program": broken})})
    freeze_dataset_folder(demo / "broken", rows, name="b", kind="tasks", split=Split(test_share=0))
    folder = job(demo, "program", dataset="../broken", evaluation="")
    assert main([str(folder)]) == Exit.INPUT
    assert f"the program of task '{rows[0].id}' does not load" in last_error(folder)


def test_template_without_tools_is_refused(demo: Path) -> None:
    small.model().save_pretrained(demo / "plain")
    tokenizer = small.tokenizer()
    tokenizer.save_pretrained(demo / "plain")
    (demo / "plain" / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    folder = job(demo, "template", model="../plain")
    assert main([str(folder)]) == Exit.INPUT
    assert "does not render tools" in last_error(folder)


@pytest.mark.parametrize(
    ("raised", "status", "reason"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), Exit.MEMORY, "lower optimiser.micro_batch"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), Exit.MEMORY, "Out of memory"),
        (OSError(28, "No space left on device"), Exit.INFRASTRUCTURE, "The disk is full"),
        (RuntimeError("basic_ios::clear: iostream error"), Exit.INFRASTRUCTURE, "The disk is full"),
        (RuntimeError("something else"), Exit.FAULT, "A fault of Envarium's own"),
    ],
)
def test_what_breaks_within_a_step_has_a_status_of_its_own(
    demo: Path, monkeypatch, request, raised: Exception, status: Exit, reason: str
) -> None:
    from training.trainer import AgentTrainer

    def broken(self, model, inputs):
        raise raised

    monkeypatch.setattr(AgentTrainer, "_compute_loss", broken)
    folder = job(demo, f"broken-{request.node.callspec.id}"[:60].replace("/", ""))
    assert main([str(folder)]) == status
    assert reason in last_error(folder)


def test_adapters_are_merged_into_a_model_of_its_own(demo: Path) -> None:
    from training.model_loader import load_model

    folder = job(demo, "lora", config={"tuning": {"kind": "lora", "rank": 4}, "steps": 1})
    assert main([str(folder)]) == Exit.DONE
    files = {path.name for path in (folder / MODEL).iterdir()}
    assert "model.safetensors" in files
    assert "adapter_config.json" not in files
    config = json.loads((folder / "job.json").read_text())["config"]
    model, tokenizer, _ = load_model(str(folder / MODEL), read_config(config).optimiser)
    assert not any("lora" in name for name in model.state_dict())
    assert tokenizer.chat_template


def test_step_of_a_job_that_trains_adapters_is_begun_from(demo: Path) -> None:
    """Its adapters, W + alpha / r B A in each layer, merged into what it began with; a second job's upon them."""
    from safetensors.torch import load_file

    lora = {"tuning": {"kind": "lora", "rank": 4, "alpha": 8.0}, "steps": 2, "optimiser": {"learning_rate": 1e-2}}
    first = job(demo, "lora-first", config=lora)
    assert main([str(first)]) == Exit.DONE
    adapters = [str(first / f"checkpoints/checkpoint-{step}") for step in (1, 2)]
    second = job(demo, "lora-second", config={"steps": 1}, adapters=adapters)
    assert main([str(second)]) == Exit.DONE
    told = json.loads((second / "job.json").read_text())
    base, found = (load_file(place / "model.safetensors") for place in (second / told["model"], second / "merged"))
    learnt = [load_file(Path(folder) / "adapter_model.safetensors") for folder in adapters]
    changed = 0
    for name, weight in base.items():
        layer = f"base_model.model.{name.removesuffix('.weight')}"
        for weights in learnt:
            if f"{layer}.lora_A.weight" in weights:
                weight = weight + 8 / 4 * weights[f"{layer}.lora_B.weight"] @ weights[f"{layer}.lora_A.weight"]
                changed += 1
        assert torch.allclose(found[name], weight, atol=1e-6), name
    assert changed
    (demo / "no-weights").mkdir()
    broken = job(demo, "lora-broken", adapters=[str(demo / "no-weights")])
    assert main([str(broken)]) == Exit.INPUT
    assert "adapters of an earlier job's step cannot be merged" in last_error(broken)


def test_hours_count_over_all_attempts_of_a_job(demo: Path) -> None:
    """What attempts elsewhere took, and what earlier ones in this folder did, is part of `limits.hours`."""
    hour = {"limits": {"hours": 1.0, "checkpoint_every": 1}, "steps": 4, "evaluation": EVALUATION | {"every": 0}}
    folder = job(demo, "hours", config=hour, spent_s=3_600.0)
    assert main([str(folder)]) == Exit.OUT_OF_TIME
    assert json.loads((folder / RESULT).read_text())["step"] == 1
    assert 0 < json.loads((folder / SPENT).read_text())["seconds"] < 600
    (folder / SPENT).write_text('{"seconds": 3600}')
    told = json.loads((folder / "job.json").read_text()) | {"spent_s": 0.0, "resume": True}
    (folder / "job.json").write_text(json.dumps(told))
    assert main([str(folder)]) == Exit.OUT_OF_TIME
    assert json.loads((folder / RESULT).read_text())["step"] == 2
    assert json.loads((folder / SPENT).read_text())["seconds"] > 3_600


def child(folder: Path) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-m", "training.launch", str(folder)], cwd=ROOT, env=environment)


def wait_for(running: subprocess.Popen, folder: Path, steps: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert running.poll() is None, f"the child ended with status {running.poll()}"
        if any(one.kind == "values" and "loss" in one.values and one.step >= steps for one in records(folder)):
            return
        time.sleep(0.1)
    raise AssertionError("the child made no step")


@pytest.mark.kill
def test_child_is_stopped_killed_and_resumed_without_a_gap(demo: Path) -> None:
    """SIGTERM within a step, then SIGKILL, then to the end: one numbered record. Workers' tests stop by the file."""
    folder = job(demo, "child", config={"steps": STEPS})
    told = json.loads((folder / "job.json").read_text())
    for number, how in enumerate(("term", "kill", "end")):
        if number:
            (folder / "job.json").write_text(json.dumps(told | {"resume": True}))
            done = max(one.step for one in records(folder) if one.kind == "values")
        else:
            done = 0
        running = child(folder)
        try:
            if how != "end":
                wait_for(running, folder, done + 1)
                running.send_signal(signal.SIGTERM if how == "term" else signal.SIGKILL)
            status = running.wait(180)
        finally:
            running.kill()
        assert status == {"term": Exit.STOPPED, "kill": -9, "end": Exit.DONE}[how]
    found = records(folder)
    assert [one.seq for one in found] == list(range(1, len(found) + 1))
    assert {one.step for one in found if one.kind == "values" and "loss" in one.values} == set(range(1, STEPS + 1))


def sources(task: RolloutTask) -> list[str]:
    return [check.source for check in task.verifier.checks]


def test_demos_environments_are_ordinary_ones() -> None:
    """Every reference earns 1, what the careless teacher does less on the whole, and marks are those of the start."""
    from synthesis.verifiers import mark_checks

    tasks = draw_tasks(11, 6)
    assert {task.environment for task in tasks} == set(ENVIRONMENTS)
    for task in tasks:
        assert (
            tuple(mark_checks(get_default_sandbox(), sources(task.rollout), task.rollout.initial))
            == task.rollout.verifier.marks
        )
    clean = datasets.play_references(get_default_sandbox(), [(task.rollout, task.reference) for task in tasks])
    careless = datasets.play_references(get_default_sandbox(), [(task.rollout, task.careless) for task in tasks])
    assert all(attempt.outcome == "solved" for attempt in clean)
    for name in ENVIRONMENTS:
        earned = [a.reward.reward for a, task in zip(careless, tasks, strict=True) if task.environment == name]
        assert sum(earned) / len(earned) < 0.9
    plain = [
        task.rollout.model_copy(update={"verifier": task.rollout.verifier.model_copy(update={"frame": None})})
        for task in tasks
    ]
    unframed = datasets.play_references(
        get_default_sandbox(), list(zip(plain, (task.careless for task in tasks), strict=True))
    )
    assert [a.reward.reward for a in careless] == [a.reward.reward for a in unframed], "it errs inside the frame"


def test_demos_tasks_have_the_frame_of_their_reference() -> None:
    sandbox = get_default_sandbox()
    tasks = draw_tasks(11, 3)
    for task in tasks:
        rollout = task.rollout
        subject = Subject(
            program=rollout.program, initial=rollout.initial, verifier=rollout.verifier, reference=task.reference
        ).with_frame(None)
        frame = rollout.verifier.frame
        assert frame is not None
        spanned = build_reference_frame(sandbox, subject)
        assert [row[:2] for row in build_frame_key(frame)] == [row[:2] for row in build_frame_key(spanned)], rollout.key
    clinic = next(task for task in tasks if task.environment == "clinic")
    twice = clinic.reference.model_copy(update={"calls": (*clinic.reference.calls, clinic.reference.calls[-1])})
    (attempt,) = datasets.play_references(sandbox, [(clinic.rollout, twice)])
    assert attempt.reward is not None
    assert (attempt.reward.reward, attempt.reward.outside[0].path) == (0, "/booked"), "its second goal alone paid half"
