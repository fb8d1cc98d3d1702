"""Losses against arithmetic worked by hand, an independent computation in numpy, and finite differences."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.training.objective.by_numpy import loss_by_numpy  # noqa: E402
from training.config import Kl, Loss  # noqa: E402
from training.objective.losses import Batch, count_local_units, estimate_token_kl, policy_loss  # noqa: E402

pytestmark = pytest.mark.slow  # loads torch

torch.set_num_threads(1)
CLIPPED = ("trajectory", "gspo", "grpo", "dapo", "bnpo", "dr_grpo")
FORMS = (*CLIPPED, "cispo")
NO_KL = Kl()
LENGTH = 7


def tensor(*rows: list[float]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def logs(*rows: list[float]) -> torch.Tensor:
    """Log-probabilities that give these ratios to old ones of 0."""
    return tensor(*rows).log()


def hand(ratios: list[list[float]], advantages: list[float], tokens: list[list[bool]] | None = None) -> Batch:
    policy = logs(*ratios)
    bearing = torch.ones(policy.shape, dtype=torch.bool) if tokens is None else torch.tensor(tokens)
    return Batch(
        logps=policy.requires_grad_(),
        old_logps=torch.zeros(policy.shape, dtype=torch.float64),
        advantages=torch.tensor(advantages, dtype=torch.float64),
        tokens=bearing,
        counted=torch.ones(len(ratios), dtype=torch.bool),
    )


def value(batch: Batch, form: str, kl: Kl = NO_KL, **more: float) -> float:
    loss, _ = policy_loss(batch, Loss(form=form, clip_low=0.2, clip_high=0.28), kl, constant_length=LENGTH, **more)
    return loss.item()


def test_trajectory_by_hand() -> None:
    # Ratios of the attempts: 1.1 x 1.1 = 1.21, within 1.28: 1.21 x 2 = 2.42.
    # 1.2 x 1.2 = 1.44 with A = 1: clipped to 1.28. 0.9 x 0.8 = 0.72 with A = -1: min(-0.72, -0.8) = -0.8.
    # -(2.42 + 1.28 - 0.8) / 3.
    batch = hand([[1.1, 1.1], [1.2, 1.2], [0.9, 0.8]], [2, 1, -1])
    loss, seen = policy_loss(batch, Loss(form="trajectory", clip_low=0.2, clip_high=0.28), NO_KL)
    assert loss.item() == pytest.approx(-2.9 / 3, abs=1e-12)
    assert [seen.units.item(), seen.clipped_low.item(), seen.clipped_high.item()] == [3, 1, 1]
    loss.backward()
    # d(-r A / 3) / d logp = -r A / 3 for the first, 0 where clipped.
    assert batch.logps.grad.tolist() == [pytest.approx([-2.42 / 3] * 2), [0, 0], [0, 0]]


def test_trajectory_is_not_the_mean_of_its_tokens() -> None:
    """Each token is within the clip, the attempt is not: 1.2^3 = 1.728 is clipped to 1.28."""
    batch = hand([[1.2, 1.2, 1.2]], [1])
    assert value(batch, "trajectory") == pytest.approx(-1.28)
    assert value(batch, "grpo") == pytest.approx(-1.2)


RAGGED = ([[1.1, 1.5, 9.0], [0.9, 0.5, 0.7]], [1, -2], [[True, True, False], [True, True, True]])
"""First attempt: 1.1, clip(1.5) = 1.28, (no loss): sum 2.38. Second: 0.9 x -2 = -1.8, min(-1, -1.6) = -1.6,
min(-1.4, -1.6) = -1.6: sum -5."""


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("grpo", -(2.38 / 2 - 5 / 3) / 2),
        ("dapo", -(2.38 - 5) / 5),
        ("bnpo", -(2.38 - 5) / 5),
        ("dr_grpo", -(2.38 - 5) / (2 * LENGTH)),
        # r1 = 1.1 x 1.5 = 1.65 -> 1.28; r2 = 0.9 x 0.5 x 0.7 = 0.315 with A = -2: min(-0.63, -1.6) = -1.6.
        ("trajectory", -(1.28 - 1.6) / 2),
        # sqrt(1.65) = 1.2845 -> 1.28; 0.315^(1/3) = 0.68041 with A = -2: min(-1.36, -1.6) = -1.6.
        ("gspo", -(1.28 - 1.6) / 2),
        # min(r, 1.28) A log r: 1.1 log 1.1 + 1.28 log 1.5, and -2 x (0.9 log 0.9 + 0.5 log 0.5 + 0.7 log 0.7).
        ("cispo", -(1.1 * math.log(1.1) + 1.28 * math.log(1.5)
                    - 2 * (0.9 * math.log(0.9) + 0.5 * math.log(0.5) + 0.7 * math.log(0.7))) / 5),
    ],
)  # fmt: skip
def test_forms_by_hand(form: str, expected: float) -> None:
    assert value(hand(*RAGGED), form) == pytest.approx(expected, abs=1e-12)


def test_cispo_weighs_gradients_and_drops_none() -> None:
    """Gradient of a token: -min(r, 1.28) A / 5. That of a clipped form is 0 where r is outside, cispo's is held."""
    batch = hand(*RAGGED)
    loss, seen = policy_loss(batch, Loss(form="cispo", clip_low=0.2, clip_high=0.28), NO_KL)
    loss.backward()
    assert batch.logps.grad.tolist() == [
        pytest.approx([-1.1 / 5, -1.28 / 5, 0]), pytest.approx([0.9 * 2 / 5, 0.5 * 2 / 5, 0.7 * 2 / 5])
    ]  # fmt: skip
    assert [seen.units.item(), seen.clipped_low.item(), seen.clipped_high.item()] == [5, 0, 1]


def test_dual_clip_by_hand() -> None:
    """Attempts of ratio 2 x 2 = 4, 1.5 x 1.5 = 2.25 and 0.5, A = -1; 4 again with A = 1. With c = 3:
    -3 (bounded, no gradient), -2.25, min(-0.5, -0.8) = -0.8, and 1.2: -(-3 - 2.25 - 0.8 + 1.2) / 4."""
    batch = hand([[2, 2], [1.5, 1.5], [0.5, 1], [2, 2]], [-1, -1, -1, 1])
    settings = Loss(form="trajectory", dual_clip=3)
    loss, seen = policy_loss(batch, settings, NO_KL)
    assert loss.item() == pytest.approx(4.85 / 4, abs=1e-12)
    assert [seen.clipped_low.item(), seen.clipped_high.item(), seen.clipped_dual.item()] == [1, 1, 1]
    loss.backward()
    assert batch.logps.grad.tolist() == [[0, 0], pytest.approx([2.25 / 4] * 2), [0, 0], [0, 0]]
    free, seen = policy_loss(batch, Loss(form="trajectory"), NO_KL)
    assert free.item() == pytest.approx(5.85 / 4, abs=1e-12), "without it the first counts with all its ratio"
    assert seen.clipped_dual.item() == 0
    # By tokens: 2, 2, 1.5, 1.5, min(-0.5, -0.8), 1 and 1.2, 1.2; c = 1.8 bounds the first two.
    by_token = policy_loss(batch, Loss(form="dapo", dual_clip=1.8), NO_KL)[0].item()
    assert by_token == pytest.approx((1.8 + 1.8 + 1.5 + 1.5 + 0.8 + 1 - 2.4) / 8, abs=1e-12)


def test_exactly_at_the_dual_clip_the_gradient_is_whole() -> None:
    for nudge, share in [(0.0, 1.0), (1e-9, 0.0), (-1e-9, 1.0)]:
        policy = tensor([math.log(3) + nudge]).requires_grad_()
        one = torch.ones(1, dtype=torch.bool)
        batch = Batch(policy, torch.zeros_like(policy), torch.tensor([-1.0]), one.unsqueeze(0), one)
        policy_loss(batch, Loss(form="trajectory", dual_clip=math.exp(math.log(3))), NO_KL)[0].backward()
        assert policy.grad.item() == pytest.approx(3 * share, abs=1e-6)


def test_kl_by_hand() -> None:
    # Policy log 0.5, other log 0.25: d = -log 2.
    d = -math.log(2)
    policy, other = torch.tensor([math.log(0.5)]), torch.tensor([math.log(0.25)])
    assert estimate_token_kl(policy, other, "k1").item() == pytest.approx(math.log(2))
    assert estimate_token_kl(policy, other, "k2").item() == pytest.approx(d * d / 2)
    assert estimate_token_kl(policy, other, "k3").item() == pytest.approx(0.5 + math.log(2) - 1)


def test_kl_in_the_loss_by_hand() -> None:
    # To the old policy (0): d = -log 2 and -log 4, k3 = 1/2 + log 2 - 1 and 1/4 + log 4 - 1; A = 0.
    batch = hand([[2.0, 4.0]], [0])
    both = (0.5 + math.log(2) - 1) + (0.25 + math.log(4) - 1)
    kl = Kl(coefficient=0.1, to="old")
    assert value(batch, "trajectory", kl) == pytest.approx(0.1 * both)  # an attempt's divergence is its tokens' sum
    assert value(batch, "dapo", kl) == pytest.approx(0.1 * both / 2)
    toward = replace(batch, reference_logps=batch.logps.detach())
    assert value(toward, "dapo", Kl(coefficient=0.1)) == 0
    _, seen = policy_loss(batch, Loss(form="dapo"), kl)
    assert seen.kl.item() == pytest.approx(both)
    assert value(batch, "dapo", Kl(coefficient=0.1, place="reward")) == 0  # paid elsewhere


@pytest.mark.parametrize("form", CLIPPED)
@pytest.mark.parametrize("sign", [1, -1])
def test_exactly_at_the_edge_nothing_is_clipped(form: str, sign: int) -> None:
    edge = math.exp(0.25) if sign > 0 else math.exp(-0.125)
    width = edge - 1 if sign > 0 else 1 - edge
    settings = Loss(form=form, clip_low=width if sign < 0 else 0.5, clip_high=width if sign > 0 else 0.5)
    for nudge, share in [(0.0, 1.0), (1e-9, 0.0), (-1e-9, 1.0)]:
        policy = tensor([math.log(edge) + sign * nudge]).requires_grad_()
        one = torch.ones(1, dtype=torch.bool)
        batch = Batch(policy, torch.zeros_like(policy), torch.tensor([float(sign)]), one.unsqueeze(0), one)
        loss, seen = policy_loss(batch, settings, NO_KL, constant_length=1)
        loss.backward()
        assert policy.grad.item() == pytest.approx(-sign * edge * share, abs=1e-6)
        assert (seen.clipped_low + seen.clipped_high).item() == (share == 0)


def drawn(seed: int, token_advantages: bool = False, spread: float = 0.3) -> Batch:
    dice = np.random.default_rng(seed)
    shape = (6, 5)
    old = -dice.random(shape) * 3
    tokens = dice.random(shape) < 0.7
    tokens[0] = False
    return Batch(
        logps=torch.tensor(old + dice.normal(0, spread, shape), requires_grad=True),
        old_logps=torch.tensor(old),
        advantages=torch.tensor(dice.normal(0, 1, shape if token_advantages else 6)),
        tokens=torch.tensor(tokens),
        counted=torch.tensor([True, True, False, True, True, False]),
        reference_logps=torch.tensor(old + dice.normal(0, spread, shape)),
    )


PENALTIES = [
    NO_KL,
    *(Kl(coefficient=0.3, to=to, estimator=k) for to in ("old", "reference") for k in ("k2", "k3")),  # type: ignore[arg-type]
]


def by_numpy(batch: Batch, form: str, kl: Kl, divisor: float | None = None, dual: float = 0.0) -> float:
    assert batch.reference_logps is not None
    other = batch.old_logps if kl.to == "old" else batch.reference_logps
    return loss_by_numpy(
        form,
        *(part.detach().numpy() for part in (batch.logps, batch.old_logps, batch.advantages)),
        batch.tokens.numpy(),
        batch.counted.numpy(),
        low=0.2,
        high=0.28,
        beta=kl.coefficient,
        other=other.numpy(),
        estimator=kl.estimator,
        length=LENGTH,
        divisor=divisor,
        dual=dual,
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kl", PENALTIES)
@pytest.mark.parametrize("seed", range(4))
def test_against_numpy(form: str, kl: Kl, seed: int) -> None:
    batch = drawn(seed)
    assert value(batch, form, kl) == pytest.approx(by_numpy(batch, form, kl), abs=1e-6)
    assert value(batch, form, kl, divisor=11.0) == pytest.approx(by_numpy(batch, form, kl, 11.0), abs=1e-6)
    if form not in ("trajectory", "gspo"):
        apart = drawn(seed, token_advantages=True)
        assert value(apart, form, kl) == pytest.approx(by_numpy(apart, form, kl), abs=1e-6)


@pytest.mark.parametrize("form", CLIPPED)
@pytest.mark.parametrize("seed", range(4))
def test_dual_clip_against_numpy(form: str, seed: int) -> None:
    batch = drawn(seed, spread=1.0)
    for dual in (0.0, 1.5, 3.0):
        loss, _ = policy_loss(
            batch, Loss(form=form, clip_low=0.2, clip_high=0.28, dual_clip=dual), NO_KL, constant_length=LENGTH
        )
        assert loss.item() == pytest.approx(by_numpy(batch, form, NO_KL, dual=dual), abs=1e-6)


@pytest.mark.parametrize("form", CLIPPED)
@pytest.mark.parametrize("kl", [PENALTIES[0], PENALTIES[1], PENALTIES[4]])
def test_gradient_against_finite_differences(form: str, kl: Kl) -> None:
    batch = drawn(5)

    def loss_at(logps: torch.Tensor) -> torch.Tensor:
        settings = Loss(form=form, clip_low=0.2, clip_high=0.28)
        return policy_loss(replace(batch, logps=logps), settings, kl, constant_length=LENGTH)[0]

    assert torch.autograd.gradcheck(loss_at, (batch.logps.detach().requires_grad_(),), eps=1e-6, atol=1e-6)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kl", [PENALTIES[0], PENALTIES[2], PENALTIES[4]])
@pytest.mark.parametrize("junk", [math.nan, math.inf, -math.inf, 1e300])
def test_masked_attempts_and_tokens_never_matter(form: str, kl: Kl, junk: float) -> None:
    batch = drawn(6)
    assert batch.reference_logps is not None
    out = ~(batch.tokens & batch.counted.unsqueeze(-1))
    spoilt = Batch(
        logps=torch.where(out, junk, batch.logps.detach()).requires_grad_(),
        old_logps=torch.where(out, junk, batch.old_logps),
        advantages=torch.where(batch.counted, batch.advantages, junk),
        tokens=batch.tokens | ~batch.counted.unsqueeze(-1),  # a masked attempt's tokens do not even have to be marked
        counted=batch.counted,
        reference_logps=torch.where(out, junk, batch.reference_logps),
    )
    settings = Loss(form=form, clip_low=0.2, clip_high=0.28)
    losses = [policy_loss(one, settings, kl, constant_length=LENGTH) for one in (batch, spoilt)]
    for loss, _ in losses:
        loss.backward()
    assert losses[0][0].item() == losses[1][0].item()
    assert losses[0][1] == losses[1][1]
    assert torch.equal(batch.logps.grad, spoilt.logps.grad)
    assert not spoilt.logps.grad[out].any()
    assert count_local_units(form, batch.tokens, batch.counted) == count_local_units(
        form, spoilt.tokens, spoilt.counted
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("divisor", [None, 0.0])
def test_all_masked_is_zero_with_a_gradient_of_zeros(form: str, divisor: float | None) -> None:
    batch = replace(drawn(7), counted=torch.zeros(6, dtype=torch.bool), advantages=torch.full((6,), math.nan))
    loss, seen = policy_loss(batch, Loss(form=form), Kl(coefficient=0.1), divisor, constant_length=LENGTH)
    loss.backward()
    assert loss.item() == 0
    assert seen.units.item() == 0
    assert torch.equal(batch.logps.grad, torch.zeros_like(batch.logps))


def test_one_valid_attempt_is_its_own_mean() -> None:
    batch = replace(hand(*RAGGED), counted=torch.tensor([True, False]))
    assert value(batch, "grpo") == pytest.approx(-2.38 / 2)
    assert value(batch, "trajectory") == pytest.approx(-1.28)
    assert value(batch, "dr_grpo") == pytest.approx(-2.38 / LENGTH)


@pytest.mark.parametrize("form", [form for form in FORMS if form != "bnpo"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_accumulated_over_ranks_it_is_the_loss_of_the_whole(form: str, ranks: int) -> None:
    """Three micro batches of two attempts; DDP averages the ranks' gradients, so the divisor is a rank's share."""
    whole = drawn(8)
    expected, _ = policy_loss(whole, Loss(form=form), PENALTIES[4], constant_length=LENGTH)
    expected.backward()
    parts = [
        Batch(**{name: value.detach()[a : a + 2] for name, value in vars(whole).items() if value is not None})
        for a in (0, 2, 4)
    ]
    units = sum(count_local_units(form, part.tokens, part.counted, LENGTH) for part in parts)
    total = 0.0
    for a, part in zip((0, 2, 4), parts, strict=True):
        part.logps.requires_grad_()
        loss, _ = policy_loss(part, Loss(form=form), PENALTIES[4], units / ranks, LENGTH)
        (loss / ranks).backward()
        total += loss.item() / ranks
        assert torch.allclose(part.logps.grad, whole.logps.grad[a : a + 2], atol=1e-12)
    assert total == pytest.approx(expected.item(), abs=1e-12)


def test_a_very_long_attempt_neither_overflows_nor_gives_nan() -> None:
    policy = torch.full((2, 40_000), -1.0, requires_grad=True)
    yes = torch.ones(policy.shape, dtype=torch.bool)
    batch = Batch(policy, torch.full(policy.shape, -2.0), torch.tensor([1.0, -1.0]), yes, yes[:, 0])
    loss, _ = policy_loss(batch, Loss(form="trajectory"), NO_KL)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(policy.grad).all()


@pytest.mark.parametrize("form", FORMS)
def test_half_precision_is_added_up_in_full(form: str) -> None:
    """4,096 tokens of ratio exp(1/64) in an attempt: bfloat16 itself could not add them to 64."""
    policy = torch.full((1, 4096), -1.0 + 1 / 64, dtype=torch.bfloat16, requires_grad=True)
    yes = torch.ones(policy.shape, dtype=torch.bool)
    batch = Batch(policy, torch.full_like(policy, -1.0).detach(), torch.tensor([-1.0]), yes, yes[:, 0])
    loss, _ = policy_loss(batch, Loss(form=form), NO_KL, constant_length=4096)
    loss.backward()
    expected = math.exp(20) if form == "trajectory" else math.exp(1 / 64)  # held at exp(20)
    if form == "cispo":
        expected *= 1 - 1 / 64  # times A log policy
    assert loss.item() == pytest.approx(-expected if form == "cispo" else expected, rel=1e-5)
    assert policy.grad.dtype == torch.bfloat16


def test_refusals() -> None:
    batch = drawn(1)
    with pytest.raises(ValueError, match="one advantage an attempt"):
        policy_loss(drawn(1, token_advantages=True), Loss(form="trajectory"), NO_KL)
    with pytest.raises(ValueError, match="constant length"):
        policy_loss(batch, Loss(form="dr_grpo"), NO_KL)
    with pytest.raises(ValueError, match="needs its log-probabilities"):
        policy_loss(replace(batch, reference_logps=None), Loss(), Kl(coefficient=0.1))
    with pytest.raises(ValueError, match=r"\(attempts, tokens\)"):
        policy_loss(replace(batch, old_logps=batch.old_logps[:, 1:]), Loss(), NO_KL)
    with pytest.raises(ValueError, match=r"\(attempts,\)"):
        policy_loss(replace(batch, counted=batch.counted[1:]), Loss(), NO_KL)
