"""Which attempts count: outcomes by outcome, and groups of equal rewards before and after."""

from __future__ import annotations

import pytest

from synthesis.contracts import Attempt, Ending, Outcome, Reward, UserFinding, UserVerdict
from training.config import DynamicSampling, Masking
from training.rewards import AttemptReward, score_attempt

torch = pytest.importorskip("torch")

from training.objective.masks import build_masks, find_zero_variance, mask_loss_tokens  # noqa: E402
from training.objective.rows import Rows, build_rows  # noqa: E402

pytestmark = pytest.mark.slow  # loads torch

ENDINGS: dict[Outcome, Ending] = {
    "solved": "answered",
    "failed": "answered",
    "agent_error": "unusable",
    "truncated": "turn_limit",
    "program_error": "program_ended",
    "infra_error": "lost",
    "cancelled": "cancelled",
}
FAILED_ONLY = Masking(meu_scope="failed")


def attempt(outcome: Outcome, reward: float | None = None, finding: UserFinding | None = None) -> Attempt:
    given = None if reward is None else Reward(reward=reward, passed=1, total=2, rule="goals", verdicts=())
    verdict = None if finding is None else UserVerdict(finding=finding)
    return Attempt(policy="p", ending=ENDINGS[outcome], outcome=outcome, reward=given, user_verdict=verdict)


@pytest.mark.parametrize(
    ("made", "score", "all_or_nothing"),
    [
        (attempt("solved", 1.0), 1.0, 1.0),
        (attempt("solved", 1.0 - 1e-10), 1.0 - 1e-10, 1.0),
        (attempt("failed", 0.75), 0.75, 0.0),
        (attempt("failed", 0.0), 0.0, 0.0),
        (attempt("truncated", 0.5), 0.5, 0.0),
        (attempt("agent_error", 0.5), 0.5, 0.0),
    ],
)
def test_what_attempts_earn(made: Attempt, score: float, all_or_nothing: float) -> None:
    assert score_attempt(made, "score", Masking()) == AttemptReward(reward=score)
    assert score_attempt(made, "all_or_nothing", Masking()) == AttemptReward(reward=all_or_nothing)


@pytest.mark.parametrize("masking", [Masking(), FAILED_ONLY, Masking(meu=False)])
def test_what_failed_around_the_agent_is_never_a_reward_of_zero(masking: Masking) -> None:
    assert score_attempt(attempt("infra_error"), "score", masking) == AttemptReward(reward=None, masked="infra_error")
    assert score_attempt(attempt("infra_error", finding="fault"), "score", masking).masked == "infra_error"
    assert score_attempt(attempt("infra_error", 0.0), "score", masking).reward is None
    assert score_attempt(attempt("failed", None), "score", masking).masked == "infra_error"
    assert score_attempt(attempt("cancelled"), "score", masking) == AttemptReward(reward=None, masked="cancelled")


def test_what_was_cut_is_masked_only_by_choice() -> None:
    """DAPO's overlong filtering: an attempt that was cut is out, whatever its end earned; one that ended is not."""
    masking = Masking(truncated=True)
    for reward in (0.0, 1.0):
        assert score_attempt(attempt("truncated", reward), "score", masking) == AttemptReward(
            reward=None, masked="truncated"
        )
    assert score_attempt(attempt("failed", 0.25), "score", masking) == AttemptReward(reward=0.25)


def test_what_a_program_ended_earned_nothing_and_is_masked_only_by_choice() -> None:
    ended = attempt("program_error")
    for rule in ("score", "all_or_nothing"):
        assert score_attempt(ended, rule, Masking()) == AttemptReward(reward=0.0)
        assert score_attempt(ended, rule, Masking(program_errors=True)) == AttemptReward(
            reward=None, masked="program_error"
        )


def test_meu_scopes() -> None:
    """AF Eq. 2 masks each attempt with a user's error; AF 1 speaks of failures: a solved one then stays. What nobody
    could judge is no fault."""
    solved, failed = attempt("solved", 1.0, "fault"), attempt("failed", 0.5, "fault")
    assert [score_attempt(one, "score", Masking()).masked for one in (solved, failed)] == ["user_fault"] * 2
    for finding in ("none", "unknown"):
        assert score_attempt(attempt("failed", 0.5, finding), "score", Masking()).reward == 0.5
    assert [score_attempt(one, "score", FAILED_ONLY).reward for one in (solved, failed)] == [1.0, None]
    assert [score_attempt(one, "score", Masking(meu=False)).reward for one in (solved, failed)] == [1.0, 0.5]


def rows() -> Rows:
    # Task a: 1, 0, masked. Task b: 0.5, 0.5, masked. Task c: 1 and two masked.
    earned = [1.0, 0.0, None, 0.5, 0.5, None, 1.0, None, None]
    names = ["a"] * 3 + ["b"] * 3 + ["c"] * 3
    return build_rows([AttemptReward(reward=one) for one in earned], names, ["e"] * 9)


def test_rows_hold_what_was_scored() -> None:
    made = rows()
    assert made.valid.tolist() == [True, True, False, True, True, False, True, False, False]
    assert made.rewards[~made.valid].isnan().all()
    assert made.groups.unique().numel() == 3


def test_masks_with_and_without_dynamic_sampling() -> None:
    made = rows()
    valid = made.valid.tolist()
    mixed = [True, True] + [False] * 7
    assert find_zero_variance(made.rewards, made.groups, made.valid).tolist() == [False] * 3 + [True] * 6
    off = build_masks(made, DynamicSampling())
    assert off.counted.tolist() == off.deviating.tolist() == valid
    before = build_masks(made, DynamicSampling(enabled=True, drop="before"))
    assert before.counted.tolist() == before.deviating.tolist() == mixed
    after = build_masks(made, DynamicSampling(enabled=True, drop="after"))
    assert (after.counted.tolist(), after.deviating.tolist()) == (mixed, valid)


def test_masked_rewards_do_not_make_a_group_lively() -> None:
    """1, 1 and a masked 0: nothing to learn, whatever the masked one says."""
    for junk in (0.0, float("nan"), float("inf")):
        rewards, groups = torch.tensor([1.0, 1.0, junk]), torch.tensor([0, 0, 0])
        assert find_zero_variance(rewards, groups, torch.tensor([True, True, False])).all()


def test_loss_bearing_tokens_are_the_agents_own_in_counted_attempts() -> None:
    own = torch.tensor([[1, 0, 1], [1, 1, 1]])
    assert mask_loss_tokens(own, torch.tensor([True, False])).tolist() == [[True, False, True], [False] * 3]
