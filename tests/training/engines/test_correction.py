"""The correction of what drew the tokens: against numpy by hand, and against TRL's own trainer."""

from __future__ import annotations

import os
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
pytest.importorskip("trl")

pytestmark = pytest.mark.slow  # loads torch
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

from pydantic import ValidationError  # noqa: E402
from trl import GRPOTrainer  # noqa: E402

from tests.training.objective.test_losses import LENGTH, drawn  # noqa: E402
from training import presets  # noqa: E402
from training.config import Correction, Kl, Loss, Reinforcement  # noqa: E402
from training.objective.correction import sampling_weights  # noqa: E402
from training.objective.losses import Batch, policy_loss  # noqa: E402

torch.set_num_threads(1)


def numbers(seed: int) -> tuple[Any, Any, Any]:
    dice = np.random.default_rng(seed)
    old = -dice.exponential(1.0, (5, 7))
    return old, old + dice.normal(0.0, 0.8, (5, 7)), dice.random((5, 7)) < 0.7


@pytest.mark.parametrize("seed", range(3))
def test_weights_are_the_formulas(seed: int) -> None:
    old, sampled, tokens = numbers(seed)
    given = torch.tensor(old), torch.tensor(sampled), torch.tensor(tokens)
    weights, cut = sampling_weights(*given, Correction(kind="token", cap=1.5))
    ratio = np.where(tokens, np.exp(old - sampled), 1.0)
    assert np.allclose(weights.numpy(), np.minimum(ratio, 1.5), atol=1e-6)
    assert (cut.numpy() == (ratio > 1.5)).all()
    assert cut.any()
    weights, cut = sampling_weights(*given, Correction(kind="sequence", cap=1.5))
    for row in range(5):
        whole = np.exp(np.where(tokens[row], old[row] - sampled[row], 0.0).sum())
        expected = 0.0 if whole > 1.5 else whole
        assert np.allclose(weights[row].numpy()[tokens[row]], expected, rtol=1e-5)
        assert (cut[row].numpy() == (tokens[row] & (whole > 1.5))).all()
    weights, cut = sampling_weights(*given, Correction(kind="none"))
    assert (weights == 1).all()
    assert not cut.any()


def test_a_token_without_a_log_probability_counts_once() -> None:
    old, sampled = torch.tensor([[-1.0, -2.0]]), torch.tensor([[float("nan"), -2.0]])
    weights, cut = sampling_weights(old, sampled, torch.tensor([[True, True]]), Correction())
    assert weights.tolist() == [[1.0, 1.0]]
    assert not cut.any()


def of_trl(batch: Batch, form: str, beta: float, weights: torch.Tensor) -> torch.Tensor:
    """`GRPOTrainer._compute_loss` with vLLM's correction on, its model's pass replaced by the batch's numbers."""

    class Known:
        model = SimpleNamespace(training=True)
        aux_loss_enabled = _entropy_bonus_enabled = False
        use_vllm = vllm_importance_sampling_correction = True
        top_entropy_quantile, off_policy_mask_threshold = 1.0, None
        epsilon_low, epsilon_high, max_completion_length = 0.2, 0.28, LENGTH
        current_gradient_accumulation_steps = 1
        args = SimpleNamespace(delta=None, use_bias_correction_kl=False, steps_per_generation=1)
        accelerator = SimpleNamespace(num_processes=1, gather=lambda x: x, reduce=lambda x, reduction: x)

        def _get_per_token_logps_and_entropies(self, *_: Any, **__: Any) -> tuple[Any, Any, None]:
            return batch.logps, torch.zeros_like(batch.logps), None

    known: Any = Known()
    known.beta, known._metrics = beta, defaultdict(lambda: defaultdict(list))
    known.loss_type = "grpo" if form == "gspo" else form
    known.importance_sampling_level = "sequence" if form == "gspo" else "token"
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
        "importance_sampling_ratio": weights,
    }
    return GRPOTrainer._compute_loss(known, known.model, inputs)


@pytest.mark.parametrize("form", ["gspo", "grpo", "dapo", "bnpo", "dr_grpo"])
@pytest.mark.parametrize("kind", ["token", "sequence"])
@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_corrected_loss_and_gradient_are_those_of_trl(form: str, kind: str, beta: float) -> None:
    ours, theirs = (
        Batch(**{**vars(drawn(4, spread=0.5)), "counted": torch.ones(6, dtype=torch.bool)}) for _ in range(2)
    )
    sampled = ours.old_logps + 0.4 * torch.randn(ours.old_logps.shape, generator=torch.Generator().manual_seed(1))
    weights, _ = sampling_weights(ours.old_logps, sampled, ours.tokens, Correction(kind=kind, cap=1.3))
    # TRL's own lines (`_generate_and_score_completions`).
    gap = (ours.old_logps - sampled) * ours.tokens
    ratio = torch.exp(gap.sum(-1, keepdim=True) if kind == "sequence" else gap)
    ratio = ratio.masked_fill(ratio > 1.3, 0.0) if kind == "sequence" else ratio.clamp(max=1.3)
    corrected = Batch(**{**vars(ours), "weights": weights})
    loss, _ = policy_loss(corrected, Loss(form=form, clip_low=0.2, clip_high=0.28), Kl(coefficient=beta),
                          constant_length=LENGTH)  # fmt: skip
    other = of_trl(theirs, form, beta, ratio)
    loss.backward()
    other.backward()
    assert loss.item() == pytest.approx(other.item(), abs=1e-5)
    assert torch.allclose(ours.logps.grad, theirs.logps.grad, atol=1e-5)


def test_papers_have_none_and_a_step_ahead_needs_one() -> None:
    for name in presets.list_presets():
        config = presets.load_preset(name).config
        if isinstance(config, Reinforcement):
            assert config.correction.kind == ("token" if name.startswith("demo") else "none"), name
    with pytest.raises(ValidationError, match="want a correction"):
        Reinforcement(attempts={"ahead": True}, correction={"kind": "none"})
    assert Reinforcement().correction.kind == "token"
