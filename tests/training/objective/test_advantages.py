"""Advantages against arithmetic worked by hand, an independent computation in numpy, and what must not matter."""

from __future__ import annotations

import math
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from tests.training.objective.by_numpy import advantages_by_numpy  # noqa: E402
from training.config import Advantage, DynamicSampling, Overlong  # noqa: E402
from training.objective.advantages import (  # noqa: E402
    compute_divergence_cost,
    compute_overlong_cost,
    compute_token_returns,
    environment_advantages,
    global_advantages,
    global_baseline_advantages,
    group_advantages,
    leave_one_out_advantages,
    mean_advantages,
    row_advantages,
    step_advantages,
    token_advantages,
)
from training.objective.masks import Masks, build_masks  # noqa: E402
from training.objective.rows import Rows, hash_labels, max_by_attempt  # noqa: E402

pytestmark = pytest.mark.slow  # loads torch

torch.set_num_threads(1)
KINDS = ("group", "environment", "mean", "leave_one_out", "global", "global_baseline")
NONE = DynamicSampling()
E = 1e-4


def doubles(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values)


def close(found: torch.Tensor, *expected: float) -> None:
    assert found.tolist() == pytest.approx(list(expected), abs=1e-12)


def every(rewards: torch.Tensor) -> torch.Tensor:
    return torch.ones_like(rewards, dtype=torch.bool)


def test_group_by_hand() -> None:
    # Task 0 earned 1, 0, 0, 1: mean 0.5, deviations 4 x 0.25 = 1, std sqrt(1 / 3).
    # Task 1 earned 0.2, 0.6: mean 0.4, 2 x 0.04 = 0.08, std sqrt(0.08 / 1).
    rewards = doubles(1, 0, 0, 1, 0.2, 0.6)
    a, b = 0.5 / (math.sqrt(1 / 3) + E), 0.2 / (math.sqrt(0.08) + E)
    close(group_advantages(rewards, ints(0, 0, 0, 0, 1, 1), every(rewards)), a, -a, -a, a, -b, b)


def test_environment_by_hand() -> None:
    # Environment 0: task 0 earned 1, 0 (mean 0.5), task 1 earned 1, 1 (mean 1). All four: mean 0.75,
    # 3 x 0.0625 + 0.5625 = 0.75, std sqrt(0.75 / 3) = 0.5. Task 0 gets +-0.5 / 0.5, task 1 gets 0.
    # Environment 1: tasks 2 (0, 0.5) and 3 (0.5, 1): mean 0.5, 0.25 + 0 + 0 + 0.25 = 0.5, std sqrt(0.5 / 3).
    rewards = doubles(1, 0, 1, 1, 0, 0.5, 0.5, 1)
    groups, environments = ints(0, 0, 1, 1, 2, 2, 3, 3), ints(0, 0, 0, 0, 1, 1, 1, 1)
    a, b = 0.5 / (0.5 + E), 0.25 / (math.sqrt(0.5 / 3) + E)
    close(environment_advantages(rewards, groups, environments, every(rewards)), a, -a, 0, 0, -b, b, -b, b)


def test_environment_deviation_before_and_after_equal_groups_leave() -> None:
    # As above in environment 0. Before: only task 0 (1, 0) is left, std sqrt(0.5 / 1). After: 0.5, as if it stayed.
    rewards, groups = doubles(1, 0, 1, 1), ints(0, 0, 1, 1)
    rows = Rows(rewards, groups, torch.zeros_like(groups), every(rewards))
    kind = Advantage(kind="environment")
    before = row_advantages(rows, build_masks(rows, DynamicSampling(enabled=True, drop="before")), kind)
    after = row_advantages(rows, build_masks(rows, DynamicSampling(enabled=True, drop="after")), kind)
    a, b = 0.5 / (math.sqrt(0.5) + E), 0.5 / (0.5 + E)
    close(before, a, -a, 0, 0)
    close(after, b, -b, 0, 0)


def test_the_mean_alone_is_taken_off_by_hand() -> None:
    rewards = doubles(1, 0, 0.5, 0.2)
    close(mean_advantages(rewards, ints(3, 3, 3, 4), every(rewards)), 0.5, -0.5, 0, 0)


def test_long_attempts_pay_by_hand() -> None:
    """DAPO Eq. 13 with a limit of 100 tokens and a buffer of 20: nothing up to 80, half at 90, all from 100 on."""
    lengths = torch.tensor([10, 80, 85, 90, 100, 140])
    close(compute_overlong_cost(lengths, 100, Overlong(buffer=20)), 0, 0, 0.25, 0.5, 1, 1)
    close(compute_overlong_cost(lengths, 100, Overlong(buffer=20, penalty=0.4)), 0, 0, 0.1, 0.2, 0.4, 0.4)
    close(compute_overlong_cost(lengths, 100, Overlong()), *[0] * 6)
    close(max_by_attempt(torch.tensor([5, 9, 7, 3]), [1, 1, 0, -1], 3), 7, 9, 0)


def test_leave_one_out_by_hand() -> None:
    # 1 - (0 + 0.5) / 2 = 0.75; 0 - (1 + 0.5) / 2 = -0.75; 0.5 - (1 + 0) / 2 = 0.
    rewards = doubles(1, 0, 0.5)
    close(leave_one_out_advantages(rewards, ints(3, 3, 3), every(rewards)), 0.75, -0.75, 0)


def test_global_by_hand() -> None:
    # 1, 0, 0, 0: mean 0.25, 0.5625 + 3 x 0.0625 = 0.75, std sqrt(0.75 / 3) = 0.5.
    rewards = doubles(1, 0, 0, 0)
    close(global_advantages(rewards, every(rewards)), *(x / (0.5 + E) for x in (0.75, -0.25, -0.25, -0.25)))


def test_global_baseline_by_hand() -> None:
    # Groups (1, 0) and (0.5, 0.3) less their means: 0.5, -0.5, 0.1, -0.1; squares 0.25 x 2 + 0.01 x 2 = 0.52, / 3.
    rewards = doubles(1, 0, 0.5, 0.3)
    s = math.sqrt(0.52 / 3) + E
    close(global_baseline_advantages(rewards, ints(0, 0, 1, 1), every(rewards)), 0.5 / s, -0.5 / s, 0.1 / s, -0.1 / s)


def test_masked_attempt_leaves_the_baseline() -> None:
    # 1, (masked 0), 0.5, 0: mean 0.5, 0.25 + 0 + 0.25 = 0.5, std sqrt(0.5 / 2) = 0.5.
    rewards = doubles(1, 0, 0.5, 0)
    counted = torch.tensor([True, False, True, True])
    close(group_advantages(rewards, ints(0, 0, 0, 0), counted), 0.5 / (0.5 + E), 0, 0, -0.5 / (0.5 + E))


def test_returns_to_go_by_hand() -> None:
    # R = 1, beta 0.1, divergences 1, (2 bears no loss), 3: returns 1 - 0.1 (1 + 3) = 0.6 and 1 - 0.3 = 0.7.
    kl, tokens = doubles(1, 2, 3).unsqueeze(0), torch.tensor([[True, False, True]])
    returns = compute_token_returns(doubles(1), kl, tokens, 0.1)
    close(returns[0], 0.6, 0, 0.7)
    close(compute_divergence_cost(kl, tokens, 0.1), 0.4)
    # Whitened with a second attempt of one token and return 0.2: mean 0.5, 0.01 + 0.04 + 0.09 = 0.14, std sqrt(0.07).
    both = torch.cat([returns, doubles(0.2, 0, 0).unsqueeze(0)])
    bearing = torch.tensor([[True, False, True], [True, False, False]])
    s = math.sqrt(0.07) + E
    found = token_advantages(both, bearing, torch.tensor([True, True]))
    close(found[0], 0.1 / s, 0, 0.2 / s)
    close(found[1], -0.3 / s, 0, 0)
    close(token_advantages(both, bearing, torch.tensor([True, False]))[1], 0, 0, 0)


def test_divergence_paid_by_the_reward_moves_equal_rewards_apart() -> None:
    # Rewards 1, 1 pay 0.2 and 0: 0.8 and 1, mean 0.9, std sqrt(2 x 0.01).
    local = Rows(doubles(1, 1), ints(0, 0), ints(0, 0), torch.tensor([True, True]))
    found, masks = step_advantages(local, lambda rows: build_masks(rows, NONE), Advantage(), paid=doubles(0.2, 0))
    a = 0.1 / (math.sqrt(0.02) + E)
    close(found, -a, a)
    assert masks.flat.all()


def drawn(seed: int, count: int = 48) -> Rows:
    dice = np.random.default_rng(seed)
    groups = dice.integers(0, 9, count)
    rewards = np.where(dice.random(count) < 0.5, dice.integers(0, 2, count), dice.random(count))
    valid = dice.random(count) < 0.8
    rewards[~valid] = np.nan
    return Rows(*(torch.as_tensor(part) for part in (rewards, groups, groups % 3, valid)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dynamic", [NONE, *(DynamicSampling(enabled=True, drop=d) for d in ("before", "after"))])
@pytest.mark.parametrize("seed", range(6))
def test_against_numpy(kind: str, dynamic: DynamicSampling, seed: int) -> None:
    rows = drawn(seed)
    found = row_advantages(rows, build_masks(rows, dynamic), Advantage(kind=kind))
    parts = (rows.rewards.numpy(), rows.groups.numpy(), rows.environments.numpy(), rows.valid.numpy())
    drop = dynamic.drop if dynamic.enabled else ""
    np.testing.assert_allclose(found.numpy(), advantages_by_numpy(kind, *parts, drop=drop), atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_to_compare_gives_exactly_zero(kind: str) -> None:
    for rewards, groups, valid in [
        ([0.1] * 3, [0, 0, 0], [True] * 3),
        ([0.3], [0], [True]),
        ([0.3, math.nan], [0, 0], [True, False]),
        ([math.nan, math.nan], [0, 1], [False, False]),
        ([], [], []),
    ]:
        rows = Rows(
            torch.tensor(rewards, dtype=torch.float64),
            torch.tensor(groups, dtype=torch.int64),
            torch.zeros(len(groups), dtype=torch.int64),
            torch.tensor(valid, dtype=torch.bool),
        )
        assert row_advantages(rows, build_masks(rows, NONE), Advantage(kind=kind)).tolist() == [0.0] * len(groups)


REWARDS = st.lists(st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 1.0]), min_size=12, max_size=12)
VALID = st.lists(st.booleans(), min_size=12, max_size=12)
GROUPS = ints(*(n // 3 for n in range(12)))
ENVIRONMENTS = ints(*(n // 6 for n in range(12)))


def estimated(kind: str, rewards: torch.Tensor, valid: torch.Tensor, order: torch.Tensor | None = None) -> torch.Tensor:
    order = torch.arange(12) if order is None else order
    rows = Rows(rewards[order], GROUPS[order], ENVIRONMENTS[order], valid[order])
    return row_advantages(rows, build_masks(rows, NONE), Advantage(kind=kind))


@pytest.mark.parametrize("kind", KINDS)
@given(rewards=REWARDS, valid=VALID, order=st.permutations(range(12)), junk=st.floats(), shift=st.floats(-3, 3))
@settings(max_examples=40, deadline=None)
def test_invariants(
    kind: str, rewards: list[float], valid: list[bool], order: list[int], junk: float, shift: float
) -> None:
    given_rewards, counted = doubles(*rewards), torch.tensor(valid)
    found = estimated(kind, given_rewards, counted)
    assert torch.allclose(estimated(kind, given_rewards, counted, torch.tensor(order)), found[torch.tensor(order)])
    assert torch.equal(estimated(kind, torch.where(counted, given_rewards, junk), counted), found)
    assert torch.allclose(estimated(kind, given_rewards + shift, counted), found, atol=1e-8)
    assert not found[~counted].any()
    tripled = estimated(kind, 3 * given_rewards, counted)
    if kind in ("mean", "leave_one_out"):
        assert torch.allclose(tripled, 3 * found)
    else:  # but for epsilon, 2/3 of 1e-4 by the deviation; the smallest there is (1/4 and 1/3 in 12 rows) is 0.0178
        assert torch.allclose(tripled, found, rtol=4e-3)
    if kind != "global":
        for group in range(4):
            assert abs(found[group == GROUPS].sum()) < 1e-9
    if not kind.startswith("global"):  # the other environment's rewards are nothing to this one
        other = torch.where(ENVIRONMENTS == 1, given_rewards.flip(0), given_rewards)
        assert torch.allclose(estimated(kind, other, counted)[:6], found[:6])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_ranks_see_the_whole_step_and_get_their_own_rows(kind: str, ranks: int) -> None:
    rows = drawn(3)
    share = 48 // ranks
    names = ("rewards", "groups", "environments", "valid")
    parts = [Rows(*(getattr(rows, name)[r * share : (r + 1) * share] for name in names)) for r in range(ranks)]
    chosen = Advantage(kind=kind)
    whole = row_advantages(rows, build_masks(rows, NONE), chosen)
    meeting, brought = threading.Barrier(ranks), dict[int, torch.Tensor]()

    def on_rank(rank: int) -> tuple[torch.Tensor, Masks]:
        def gather(own: torch.Tensor) -> torch.Tensor:
            brought[rank] = own
            meeting.wait(20)
            everything = torch.cat([brought[other] for other in range(ranks)])
            meeting.wait(20)
            return everything

        return step_advantages(parts[rank], lambda seen: build_masks(seen, NONE), chosen, gather=gather, rank=rank)

    with ThreadPoolExecutor(ranks) as threads:
        for rank, (found, masks) in enumerate(threads.map(on_rank, range(ranks))):
            assert torch.equal(found, whole[rank * share : (rank + 1) * share])
            assert torch.equal(masks.counted, parts[rank].valid)


def test_a_step_is_more_than_its_micro_batches() -> None:
    """Accumulated or gathered, the deviation is that of all: micro batches apart would give each a value of its own."""
    rewards, groups = doubles(1, 0, 0.5, 0.4), ints(0, 0, 1, 1)
    whole = environment_advantages(rewards, groups, torch.zeros_like(groups), every(rewards))
    apart = environment_advantages(rewards[2:], groups[2:], torch.zeros(2, dtype=torch.int64), every(rewards[2:]))
    assert abs(whole[2] - apart[0]) > 0.4


def test_ids_of_names_and_refused_rows() -> None:
    assert hash_labels(["a", "b", "a"]).unique().numel() == 2
    assert hash_labels(["a"]).item() == 0xCA978112CA1BBDCA >> 1  # SHA-256 of "a" begins so
    with pytest.raises(ValueError, match="one length"):
        Rows(doubles(1), ints(0, 1), ints(0), torch.tensor([True]))
    with pytest.raises(ValueError, match="no finite reward"):
        Rows(doubles(math.nan), ints(0), ints(0), torch.tensor([True]))


def test_masks_of_rows_can_be_cut() -> None:
    masks = Masks(*(torch.tensor([True, False, True]) for _ in range(3)))
    assert masks.rows(slice(1, 3)).counted.tolist() == [False, True]
