"""RL jobs end to end on a tiny model and real environments: record, rollouts, stop, resume."""

from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

pytestmark = pytest.mark.slow  # loads torch
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

from synthesis.errors import InputError  # noqa: E402
from tests.training import small  # noqa: E402
from training import rl  # noqa: E402
from training.config import (  # noqa: E402
    Attempts,
    Decoding,
    DynamicSampling,
    Evaluation,
    Limits,
    Listed,
    Lora,
    Optimiser,
    Reinforcement,
    Sampling,
)
from training.evaluate import evaluate_model  # noqa: E402
from training.metrics import Position, Writer, read_records  # noqa: E402
from training.model_loader import load_model  # noqa: E402
from training.rewards import AttemptReward  # noqa: E402
from training.sampler import choose_rows  # noqa: E402
from training.step import TooManyLost  # noqa: E402
from training.step_record import read_rollouts  # noqa: E402
from training.trainer_callbacks import Watch, find_latest_checkpoint  # noqa: E402

CFG = Reinforcement(
    steps=4,
    sampling=Sampling(environments=4, tasks=8, rollouts=2),
    horizon=Listed(turns=(1, 2), every=2),
    decoding=Decoding(turn_tokens=8, trajectory_tokens=400),
    attempts=Attempts(at_once=16, deadline_s=30),
    optimiser=Optimiser(learning_rate=1e-3, micro_batch=16),
    evaluation=Evaluation(every=2, tasks=4, turns=1, temperature=0.0),
    limits=Limits(checkpoint_every=2, checkpoints_kept=2),
)


def job(folder, cfg=CFG, asked=lambda: False, **rest) -> rl.ReinforcementJob:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder.parent / "model"
    model, _, _ = load_model(small.saved(path) if not path.exists() else str(path), cfg.optimiser)
    table = small.table(cfg.attempts.at_once, stopped=asked)
    rows = small.rows()
    writer = Writer(folder / "record.jsonl")
    return rl.ReinforcementJob(cfg, folder, model, table, rows, rows[:4], writer, Watch(asked, cfg.limits), **rest)


def records(folder):
    return read_records(folder / "record.jsonl", Position())[0]


def closed(one: rl.ReinforcementJob) -> None:
    one.writer.close()


def test_job_leaves_a_record_rollouts_and_checkpoints(tmp_path) -> None:
    one = job(tmp_path / "job")
    ended, _ = rl.train_reinforcement(one)
    closed(one)
    assert ended == "done"
    found = records(one.folder)
    assert [record.seq for record in found] == list(range(1, len(found) + 1))
    values = {record.step: record.values for record in found if record.kind == "values" and "loss" in record.values}
    assert sorted(values) == [1, 2, 3, 4]
    assert [values[step]["horizon"] for step in (1, 2, 3, 4)] == [1, 1, 2, 2]
    assert "kl" not in values[1], "without a penalty nothing measures it"
    for name in ("reward", "entropy", "grad_norm", "tool_errors", "environment_share", "masked", "flat_groups"):
        assert values[1][name] is not None
    assert values[1]["sampling_gap"] < 1e-4, "what was drawn has the probability that the trainer sees"
    evaluated = [record.step for record in found if record.kind == "values" and "evaluation/reward" in record.values]
    assert evaluated == [0, 2, 4]
    assert [step for step, _ in one.results] == [0, 2, 4]
    artefacts = [(record.step, record.what, record.path) for record in found if record.kind == "artefact"]
    assert [(s, w) for s, w, _ in artefacts if w == "checkpoint"] == [(2, "checkpoint"), (4, "checkpoint")]
    for step, what, path in artefacts:
        if what == "rollouts":
            lines = read_rollouts(one.folder / path)
            assert len(lines) == 16
            assert {line["policy_step"] for line in lines} == {step - 1}
            assert {line["attempt"]["policy"] for line in lines} == {f"step {step - 1}"}
    assert not list(one.folder.rglob("*.bin.tmp"))


def tried(folder, step: int) -> list[tuple[str, int]]:
    lines = read_rollouts(folder / f"rollouts/step-{step:06d}.jsonl.gz")
    return [(line["row"], line["ordinal"]) for line in lines]


def test_job_that_was_stopped_and_resumed_goes_the_same_way(tmp_path, monkeypatch) -> None:
    """The tasks of each step, and within rounding the weights, are those of a job that ran through."""
    # An untrained model solves nothing, so what it happens to write earns something here.
    monkeypatch.setattr(
        "training.step.score_attempt",
        lambda attempt, *_: AttemptReward(reward=attempt.turns[0].completion_ids[0] % 5 / 4),
    )
    whole = job(tmp_path / "whole")
    _, through = rl.train_reinforcement(whole)
    closed(whole)
    part = job(tmp_path / "part")
    part.watch.asked = lambda: len(records(part.folder)) > 5
    ended, trainer = rl.train_reinforcement(part)
    closed(part)
    stopped_at = trainer.state.global_step
    assert ended == "stopped"
    assert 0 < stopped_at < 4
    assert find_latest_checkpoint(part.folder).name == f"checkpoint-{stopped_at}"
    again = job(tmp_path / "part")
    ended, trainer = rl.train_reinforcement(again, resume=True)
    closed(again)
    assert ended == "done"
    assert trainer.state.global_step == 4
    for step in range(1, 5):
        assert tried(tmp_path / "part", step) == tried(tmp_path / "whole", step)
    first, second = (one.model.state_dict() for one in (through, trainer))
    assert all(torch.allclose(first[name], second[name], atol=1e-4) for name in first)
    untrained = small.model().state_dict()
    assert not any(torch.equal(first[name], untrained[name]) for name in first if "proj" in name)
    numbers = [record.seq for record in records(part.folder)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_stop_within_a_step_keeps_the_policy_as_it_was(tmp_path) -> None:
    """Asked while attempts are under way: nothing is learnt from them, and the checkpoint is of the step before."""
    asked: list[int] = []
    one = job(tmp_path / "job", asked=lambda: bool(asked))
    one.held_out = ()
    run = rl.attempt_tasks
    steps: list[int] = []

    def watched(*given, **named):
        steps.append(1)
        if len(steps) == 2:
            asked.append(1)
        return run(*given, **named)

    rl.attempt_tasks = watched
    try:
        ended, trainer = rl.train_reinforcement(one)
    finally:
        rl.attempt_tasks = run
        closed(one)
    assert (ended, trainer.state.global_step) == ("stopped", 1)
    folder = find_latest_checkpoint(one.folder)
    assert folder.name == "checkpoint-1"
    state = rl.SamplerState.model_validate_json((folder / rl.SAMPLER).read_bytes())
    assert state.draws == 1
    assert records(one.folder)[-1].path == "checkpoints/checkpoint-1"


def test_adapters_dynamic_sampling_and_two_updates_run_together(tmp_path) -> None:
    cfg = CFG.model_copy(
        update={"steps": 2, "tuning": Lora(rank=4), "dynamic_sampling": DynamicSampling(enabled=True, rounds=2),
                "loss": CFG.loss.model_copy(update={"updates": 2}),
                "kl": CFG.kl.model_copy(update={"coefficient": 0.1})}
    )  # fmt: skip
    one = job(tmp_path / "job", cfg)
    ended, _ = rl.train_reinforcement(one)
    closed(one)
    assert ended == "done"
    values = [record.values for record in records(one.folder) if record.kind == "values" and "loss" in record.values]
    assert values[0]["draws"] == 2
    assert "draws" not in values[1], "the second update is of the same attempts"
    assert (find_latest_checkpoint(one.folder) / "adapter_model.safetensors").is_file()


def test_lost_sandbox_pauses_the_job(tmp_path, monkeypatch) -> None:
    from synthesis.errors import SandboxLost
    from synthesis.rollout.environment_calls import AttemptEpisode

    def lost(self) -> None:
        raise SandboxLost("sandbox")

    one = job(tmp_path / "job")
    one.held_out = ()
    monkeypatch.setattr(AttemptEpisode, "_reset", lost)
    with pytest.raises(TooManyLost, match="16 of 16"):
        rl.train_reinforcement(one)
    closed(one)


def test_more_environments_than_the_dataset_has_are_refused(tmp_path) -> None:
    sampling = Sampling(environments=5, tasks=10, rollouts=2)
    one = job(tmp_path / "job", CFG.model_copy(update={"sampling": sampling}))
    with pytest.raises(InputError, match=r"sampling\.environments"):
        rl.train_reinforcement(one)
    closed(one)


def test_attempts_that_do_not_differ_are_no_configuration() -> None:
    with pytest.raises(ValueError, match=r"decoding\.temperature: attempts to learn from must differ"):
        Reinforcement.model_validate(CFG.model_dump() | {"decoding": {"temperature": 0}})


def test_conversation_without_a_user_is_refused(tmp_path) -> None:
    one = job(tmp_path / "job")
    one.held_out = ()
    one.rows = [row.model_copy(update={"setting": "conversation"}) for row in one.rows]
    with pytest.raises(InputError, match="user"):
        rl.train_reinforcement(one)
    closed(one)


def test_evaluation_is_the_same_each_time() -> None:
    rows, model = small.rows(), small.model().eval()
    settings = Evaluation(tasks=6, turns=2, temperature=1.0, rollouts=2)
    assert choose_rows(rows, 6, 3) == choose_rows(rows, 6, 3) != choose_rows(rows, 6, 4)
    decoding = Decoding(turn_tokens=8, trajectory_tokens=300)
    first, second = (evaluate_model(small.table(16), model, rows, settings, decoding, 3) for _ in range(2))
    assert first == second
    assert (first.tried, first.counted) == (12, 12)
