"""A step's attempts: draws, dynamic sampling's refills, ranks that agree, stops and losses."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

pytestmark = pytest.mark.slow  # loads torch
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

from synthesis.contracts import Attempt, Message, Reward, Verdict  # noqa: E402
from tests.training import small  # noqa: E402
from training.attempts import TaskAttempt  # noqa: E402
from training.config import DynamicSampling, Limits, Reinforcement, Sampling  # noqa: E402
from training.policy import Trace  # noqa: E402
from training.sampler import Catalogue, Prompt, SamplerState  # noqa: E402
from training.step import Ranks, StepStopped, TooManyLost, TrainingStep, make_step, share_places  # noqa: E402
from training.step_record import choose_watched_tasks, compute_step_values, read_rollouts, write_rollouts  # noqa: E402

ROWS = small.rows()
CFG = Reinforcement(sampling=Sampling(environments=4, tasks=8, rollouts=2))


def attempt(row, number: int, reward: float | None, **rest) -> TaskAttempt:
    verdict = Verdict(passed=True)
    told = None if reward is None else Reward(reward=reward, passed=1, total=1, rule="goals", verdicts=(verdict,))
    outcome = "infra_error" if reward is None else "solved" if reward == 1 else "failed"
    made = Attempt(
        key=row.id, ordinal=number, policy="p", ending="lost" if reward is None else "answered", outcome=outcome,
        reward=told, messages=(Message(role="assistant", content="Done."),), **rest,
    )  # fmt: skip
    return TaskAttempt(row, number, made, Trace(prompt=[1], completion=[2, 3], logprobs=[-1.0, 0.0], own=[1, 0]))


def attempting(reward_of):
    def make(work: Sequence, seed: str) -> list[TaskAttempt]:
        return [attempt(row, number, reward_of(row, number, seed)) for row, number in work]

    return make


def catalogue(cfg=CFG) -> Catalogue:
    prompts = [Prompt(row=n, environment=row.environment) for n, row in enumerate(ROWS)]
    return Catalogue(prompts, cfg.mixture, cfg.sampling, cfg.seed)


def step(reward_of, cfg=CFG, ranks=None, stopped=lambda: False, make=None) -> TrainingStep:
    return make_step(
        cfg, catalogue(cfg), ROWS, SamplerState(), make or attempting(reward_of), ranks or Ranks(), stopped
    )


def test_step_is_environments_times_tasks_times_attempts() -> None:
    made = step(lambda row, number, seed: float(number))
    assert (len(made.judged), made.draws, made.kept) == (16, 1, list(range(16)))
    assert [tried.ordinal for tried, _ in made.judged] == [0, 1] * 8
    assert len({tried.row.environment for tried, _ in made.judged}) == 4
    assert len({tried.group for tried, _ in made.judged}) == 8
    assert made.state.draws == 1


def dynamic(rounds: int, **rest) -> Reinforcement:
    return CFG.model_copy(update={"dynamic_sampling": DynamicSampling(enabled=True, rounds=rounds, **rest)})


def test_groups_of_equal_rewards_are_drawn_again_until_the_step_is_full() -> None:
    """The first draw's lamps and depot are all solved; the second draws two environments for them."""

    def reward_of(row, number, seed) -> float:
        return 1.0 if seed.endswith(":1") and row.environment in ("lamps", "depot") else float(number)

    made = step(reward_of, dynamic(3))
    assert made.draws == 2
    assert len(made.judged) == 16 + 8
    assert len(made.kept) == 16
    kept = [made.judged[place] for place in made.kept]
    assert all(score.reward == tried.ordinal for tried, score in kept)
    rows = made.rows()
    assert rows.rewards.numel() == 24, "what was left out is there for the environment's deviation"


def test_dynamic_sampling_is_bounded_and_fills_up_with_what_teaches_nothing() -> None:
    made = step(lambda row, number, seed: 1.0, dynamic(3))
    assert (made.draws, len(made.judged), len(made.kept)) == (3, 48, 16)


def test_ranks_make_their_share_and_agree() -> None:
    """Two processes in two threads that exchange what each made."""
    import threading

    meeting = threading.Barrier(2)
    desk: list[list] = [[], []]
    found: list[TrainingStep | None] = [None, None]
    made_by: list[int] = [0, 0]

    def process(rank: int) -> None:
        def every(items: list) -> list:
            desk[rank] = items
            meeting.wait()
            whole = [*desk[0], *desk[1]]
            meeting.wait()
            return whole

        def make(work: Sequence, seed: str) -> list[TaskAttempt]:
            made_by[rank] += len(work)
            return attempting(lambda row, number, seed: float(number))(work, seed)

        def first(items: list) -> list:
            whole = every(items)
            return whole if rank == 0 else items

        found[rank] = step(None, ranks=Ranks(rank, 2, every, first), make=make)

    threads = [threading.Thread(target=process, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    first, second = found
    assert made_by == [8, 8]
    assert [tried.group for tried, _ in first.judged] == [tried.group for tried, _ in second.judged]
    assert first.shares == second.shares == [first.kept[::2], first.kept[1::2]], "each learns from what it made"
    for number, made in enumerate((first, second)):
        assert all(made.judged[place][0].trace.own for place in made.own(Ranks(number, 2)))
    assert [score for _, score in first.judged] == [score for _, score in second.judged]
    assert all(tried.attempt.messages for tried, _ in first.judged), "the first rank writes down what was said"
    assert sum(bool(tried.attempt.messages) for tried, _ in second.judged) == 8


def test_shares_stay_equal_where_kept_attempts_were_made_unevenly() -> None:
    assert share_places([0, 1, 2, 4], [0, 1, 0, 1, 0, 1], 2) == [[0, 2], [1, 4]]


def test_stop_throws_the_step_away() -> None:
    with pytest.raises(StepStopped):
        step(lambda row, number, seed: 1.0, stopped=lambda: True)
    with pytest.raises(StepStopped):
        step(None, make=lambda work, seed: [])


def test_lost_attempts_are_masked_up_to_a_share_and_then_pause_the_job() -> None:
    cfg = CFG.model_copy(update={"limits": Limits(infra_error_share=0.25)})
    some = step(lambda row, number, seed: None if row.environment == "lamps" else float(number), cfg)
    assert sum(score.masked == "infra_error" for _, score in some.judged) == 4
    assert not some.rows().valid[[s.masked == "infra_error" for _, s in some.judged]].any()
    with pytest.raises(TooManyLost, match="8 of 16 attempts"):
        step(lambda row, number, seed: None if number else 1.0, cfg)


def test_values_of_a_step_by_hand() -> None:
    """Rewards 0 and 1 in each group; lamps lost."""
    cfg = CFG.model_copy(update={"limits": Limits(infra_error_share=0.25)})
    made = step(lambda row, number, seed: None if row.environment == "lamps" else float(number), cfg)
    values = compute_step_values(made.judged, 2.0)
    assert values["reward"] == values["success"] == 0.5
    assert values["reward_std"] == pytest.approx((12 * 0.25 / 11) ** 0.5)
    assert values["masked"] == values["outcome/infra_error"] == 0.25
    assert values["environment/depot/success"] == 0.5
    assert "environment/lamps/success" not in values
    assert values["node/demo/depot/reward"] == 0.5
    assert values["tokens_per_s"] == 8.0
    assert values["length"] == 1.0


def checked(row, number: int) -> TaskAttempt:
    """Attempt 0 fails every check but the first, attempt 1 passes all."""
    made = attempt(row, number, float(number))
    verdicts = tuple(Verdict(passed=bool(number) or not place) for place, _ in enumerate(row.rollout.verifier.checks))
    reward = made.attempt.reward.model_copy(update={"verdicts": verdicts})
    return replace(made, attempt=made.attempt.model_copy(update={"reward": reward}))


def test_checks_of_watched_tasks_are_told_one_by_one() -> None:
    made = step(None, make=lambda work, seed: [checked(row, number) for row, number in work])
    rows = list({tried.row.id: tried.row for tried, _ in made.judged}.values())
    told = choose_watched_tasks(rows)
    assert set(told) == {row.id for row in rows}
    values = {key: v for key, v in compute_step_values(made.judged, 2.0, told).items() if key.startswith("check/")}
    assert values == {
        f"check/{told[row.id][:16]}.{number}/success": 1.0 if number == 1 else 0.5
        for row in rows
        for number in range(1, len(row.rollout.verifier.checks) + 1)
    }


def test_checks_of_a_large_dataset_are_bounded() -> None:
    fewest = sum(len(row.rollout.verifier.checks) for row in ROWS) // 2
    told = choose_watched_tasks(ROWS, fewest)
    assert 0 < sum(len(row.rollout.verifier.checks) for row in ROWS if row.id in told) <= fewest
    assert choose_watched_tasks([], fewest) == {}


def test_rollouts_are_written_whole_with_where_they_come_from(tmp_path) -> None:
    made = step(lambda row, number, seed: float(number))
    path = tmp_path / "rollouts" / "step-000003.jsonl.gz"
    write_rollouts(path, made.judged, [0.5] * 15 + [None], policy_step=2, horizon=4)
    lines = read_rollouts(path)
    assert len(lines) == 16
    assert lines[0]["policy_step"] == 2
    assert lines[0]["advantage"] == 0.5
    assert lines[15]["advantage"] is None
    assert Attempt.model_validate(lines[3]["attempt"]) == made.judged[3][0].attempt

    task = made.judged[3][0].row.rollout
    assert lines[3]["verifier"] == task.verifier_hash
    assert not list(tmp_path.rglob("*.new"))
