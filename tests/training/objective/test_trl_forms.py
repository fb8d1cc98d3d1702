"""Our losses and group advantages against TRL's own code, called on the same numbers without a model."""

from __future__ import annotations

import os
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

pytestmark = pytest.mark.slow  # loads torch
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

from trl import GRPOTrainer  # noqa: E402
from trl.trainer.utils import nanstd  # noqa: E402

from tests.training.objective.test_losses import LENGTH, drawn  # noqa: E402
from training.config import Kl, Loss  # noqa: E402
from training.objective.advantages import group_advantages  # noqa: E402
from training.objective.losses import Batch, policy_loss  # noqa: E402

torch.set_num_threads(1)


def of_trl(batch: Batch, form: str, beta: float, dual: float = 0.0) -> torch.Tensor:
    """`GRPOTrainer._compute_loss` with its model's forward pass replaced by the batch's log-probabilities."""

    class Known:
        model = SimpleNamespace(training=True)
        aux_loss_enabled = use_vllm = _entropy_bonus_enabled = False
        top_entropy_quantile, off_policy_mask_threshold = 1.0, None
        epsilon_low, epsilon_high, max_completion_length = 0.2, 0.28, LENGTH
        current_gradient_accumulation_steps = 1
        args = SimpleNamespace(delta=dual or None, use_bias_correction_kl=False, steps_per_generation=1)
        accelerator = SimpleNamespace(num_processes=1, gather=lambda x: x, reduce=lambda x, reduction: x)

        def _get_per_token_logps_and_entropies(self, *_: Any, **__: Any) -> tuple[Any, Any, None]:
            return batch.logps, torch.zeros_like(batch.logps), None

    known: Any = Known()
    known.beta = beta
    if form == "cispo":
        known.epsilon_high = 1.28  # TRL's is the bound itself
    known.loss_type = "grpo" if form == "gspo" else form
    known.importance_sampling_level = "sequence" if form == "gspo" else "token"
    known._metrics = defaultdict(lambda: defaultdict(list))
    ids = torch.zeros(batch.logps.shape, dtype=torch.int64)
    inputs = {
        "prompt_ids": ids[:, :1],
        "prompt_mask": ids[:, :1],
        "completion_ids": ids,
        "completion_mask": batch.tokens.long(),
        "advantages": batch.advantages,
        "old_per_token_logps": batch.old_logps,
        "ref_per_token_logps": batch.reference_logps,
        "num_items_in_batch": batch.tokens.sum(),
    }
    return GRPOTrainer._compute_loss(known, known.model, inputs)


@pytest.mark.parametrize("form", ["gspo", "grpo", "dapo", "bnpo", "dr_grpo", "cispo"])
@pytest.mark.parametrize("beta", [0.0, 0.3])
@pytest.mark.parametrize("dual", [0.0, 1.5])
@pytest.mark.parametrize("seed", range(3))
def test_loss_and_gradient_are_those_of_trl(form: str, beta: float, dual: float, seed: int) -> None:
    dual = 0.0 if form == "cispo" else dual
    ours, theirs = drawn(seed, spread=0.8), drawn(seed, spread=0.8)
    ours, theirs = (Batch(**{**vars(one), "counted": torch.ones(6, dtype=torch.bool)}) for one in (ours, theirs))
    settings = Loss(form=form, clip_low=0.2, clip_high=0.28, dual_clip=dual)
    loss, _ = policy_loss(ours, settings, Kl(coefficient=beta), constant_length=LENGTH)
    other = of_trl(theirs, form, beta, dual)
    loss.backward()
    other.backward()
    assert loss.item() == pytest.approx(other.item(), abs=1e-6)
    assert torch.allclose(ours.logps.grad, theirs.logps.grad, atol=1e-6)


@pytest.mark.parametrize("form", ["gspo", "grpo", "dr_grpo"])
def test_trl_counts_masked_attempts_where_we_do_not(form: str) -> None:
    """4 of 6 attempts count: with the tokens of two masked, TRL still divides by 6."""
    batch = drawn(2)
    emptied = Batch(**{**vars(batch), "tokens": batch.tokens & batch.counted.unsqueeze(-1)})
    settings = Loss(form=form, clip_low=0.2, clip_high=0.28)
    loss, _ = policy_loss(batch, settings, Kl(), constant_length=LENGTH)
    assert loss.item() * 4 / 6 == pytest.approx(of_trl(emptied, form, 0.0).item(), abs=1e-6)


def test_group_advantages_are_those_of_trl() -> None:
    """TRL's lines: a row whose reward function gave None is NaN, out of mean and deviation, its advantage 0."""
    dice = torch.Generator().manual_seed(0)
    rewards = torch.rand(6, 8, generator=dice, dtype=torch.float64)
    rewards[torch.rand(6, 8, generator=dice) < 0.3] = torch.nan
    rewards[5] = 0.25
    theirs = (rewards - rewards.nanmean(1, keepdim=True)) / (nanstd(rewards, dim=1, keepdim=True) + 1e-4)
    flat = rewards.reshape(-1)
    ours = group_advantages(flat, torch.arange(6).repeat_interleave(8), ~flat.isnan())
    assert torch.allclose(ours.reshape(6, 8), theirs.nan_to_num(0.0), atol=1e-6)
