"""TRL's GRPO trainer with our attempts, advantages and loss: everything that depends on TRL's private parts.

`OVERRIDDEN` and `CALLED` list them all; a test compares signatures and sources with those this was written against.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from trl import GRPOConfig, GRPOTrainer

from training.config import Reinforcement
from training.objective.advantages import (
    compute_divergence_cost,
    compute_overlong_cost,
    compute_token_returns,
    step_advantages,
    token_advantages,
)
from training.objective.correction import sampling_weights
from training.objective.losses import BY_ATTEMPT, Batch, Statistics, count_local_units, estimate_token_kl, policy_loss
from training.objective.masks import Masks, build_masks, mask_loss_tokens
from training.objective.rows import max_by_attempt, select_attempt_values, sum_by_attempt, sum_later_samples
from training.placement.micro_batches import accumulate_loss, make_rank_maximum, select_batch_rows, split_alike_on_ranks
from training.placement.model_placement import is_sharded
from training.policy import Diverged
from training.step import Ranks, Samples, TrainingStep, get_ranks

OVERRIDDEN = ("_generate_and_score_completions", "_compute_loss", "_get_per_token_logps_and_entropies", "compute_loss")
"""Of `GRPOTrainer`: the second is replaced whole. The others are called through: the first one's advantages and masks
are replaced, the last two go through micro batches of a budget of tokens."""
CALLED = ("_save_checkpoint",)
"""Of `GRPOTrainer`, used as they are."""
RESTS_ON = ("_prepare_inputs", "_generate", "_calculate_rewards", "get_train_dataloader", "_get_train_sampler")
"""Of `GRPOTrainer`, neither called nor replaced, but what they do with a generation batch is taken for granted: so is
that a rollout function may hand over more rows than there are prompts, if an attempt is a sample a turn."""


@dataclass
class Sums:
    """Sums over the updates and micro batches of a step."""

    units: float = 0.0
    kl: float = 0.0
    low: float = 0.0
    high: float = 0.0
    dual: float = 0.0
    entropy: float = 0.0
    gap: float = 0.0
    tokens: float = 0.0
    cut: float = 0.0

    def add(self, told: Statistics, entropy: Tensor, gap: Tensor, tokens: Tensor, cut: Tensor) -> None:
        inside = tokens.bool()
        self.units += told.units.item()
        self.kl += told.kl.item()
        self.low += told.clipped_low.item()
        self.high += told.clipped_high.item()
        self.dual += told.clipped_dual.item()
        self.entropy += entropy[inside].sum().item()
        self.gap += gap[inside].abs().sum().item()
        self.tokens += inside.sum().item()
        self.cut += cut.sum().item()

    def values(self, reduce: Callable[[Tensor], Tensor]) -> dict[str, float]:
        """Return shares and means over all ranks (`reduce` sums over them)."""
        totals = torch.tensor(
            [self.units, self.kl, self.low, self.high, self.dual, self.entropy, self.gap, self.tokens, self.cut]
        )
        units, kl, low, high, dual, entropy, gap, tokens, cut = reduce(totals.double()).tolist()
        by_unit, by_token = max(units, 1.0), max(tokens, 1.0)
        return {
            "kl": kl / by_unit,
            "clipped_low": low / by_unit,
            "clipped_high": high / by_unit,
            "clipped_dual": dual / by_unit,
            "entropy": entropy / by_token,
            "sampling_gap": gap / by_token,
            "sampling_truncated": cut / by_token,
        }


@dataclass
class StepReport:
    """Data of a step for the record: the attempts, their advantages (None if not kept), the updates' sums."""

    step: TrainingStep
    samples: Samples
    advantages: list[float | None]
    masks: Masks
    divergence: float = 0.0
    """Mean over kept attempts of the divergence from the reference, if the reward includes it."""
    sums: Sums = field(default_factory=Sums)


class AgentTrainer(GRPOTrainer):
    """Trainer on attempts that `roll(trainer)` makes (`training.step.make_step`).

    TRL's dataset determines only the number of steps; its rows are placeholders. Its rollout function returns this
    rank's share of the step's samples, its reward function the rewards of attempts; the values that TRL computes from
    these are then replaced by ours.
    """

    def __init__(
        self, cfg: Reinforcement, roll: Callable[[AgentTrainer], TrainingStep], args: GRPOConfig, **rest: Any
    ) -> None:
        self.cfg, self.roll = cfg, roll
        self.before_weights: Callable[[], None] = lambda: None
        """Called before TRL may copy the weights to an engine: generation is not allowed then."""
        self.told: StepReport | None = None
        super().__init__(args=args, rollout_func=_provide_rollouts, reward_funcs=[earned], **rest)

    @property
    def ranks(self) -> Ranks:
        return get_ranks(self.accelerator)

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        self.before_weights()
        output = super()._generate_and_score_completions(inputs)
        assert self.told is not None
        step, samples = self.told.step, self.told.samples
        all_places = samples.places
        own_places = torch.tensor(all_places[samples.own(self.ranks)], device=output["tool_mask"].device)
        tokens = output["tool_mask"] * output["completion_mask"]
        paid, kl = self._penalty(output, tokens)
        paying = paid / (self.cfg.kl.coefficient or 1.0) if kl is None else compute_divergence_cost(kl, tokens, 1.0)
        overlong = self._overlong(output)
        rows = step.rows()
        rows = type(rows)(**{name: value.to(tokens.device) for name, value in vars(rows).items()})
        # All ranks hold all rows, so that there is nothing to gather.
        whole, masks = step_advantages(
            rows,
            lambda r: build_masks(r, self.cfg.dynamic_sampling),
            self.cfg.advantage,
            paid=sum_by_attempt(self.accelerator.gather(paid), all_places, len(step.judged)) + overlong,
        )
        counted = select_attempt_values(masks.counted, own_places)
        bearing = mask_loss_tokens(tokens, counted)
        output["advantages"] = select_attempt_values(whole, own_places).float()
        if kl is not None:
            output["advantages"] = self._to_go(
                select_attempt_values(rows.rewards - overlong, own_places), kl, bearing, counted
            ).float()
        self.told.masks = masks
        self.told.divergence = (self.accelerator.gather(paying).sum() / len(step.kept)).item()
        self.told.advantages = [None] * len(step.judged)
        for place in step.kept:
            self.told.advantages[place] = whole[place].item()
        lengths = sum_by_attempt(self.accelerator.gather(bearing.sum(-1)), all_places, len(step.judged))
        output["attempt_tokens"] = select_attempt_values(lengths, own_places)
        output["divisor"] = self._compute_divisor(masks.counted[step.kept], lengths) / self.accelerator.num_processes
        output["counted"] = counted
        output["tool_mask"] = bearing.long()
        return output

    def _compute_divisor(self, counted: Tensor, lengths: Tensor) -> Tensor:
        """Return the divisor of the step's sums: its counted attempts, however many samples each has, or tokens."""
        form, longest = self.cfg.loss.form, self.cfg.decoding.trajectory_tokens
        return count_local_units(form, counted.unsqueeze(-1), counted, longest) if form in BY_ATTEMPT else lengths.sum()

    def _overlong(self, output: dict[str, Any]) -> Tensor:
        """Return (N,) penalties of the step's attempts for their length; of an attempt of several samples the longest
        counts.
        """
        assert self.told is not None
        lengths = self.accelerator.gather(output["prompt_mask"].sum(-1) + output["completion_mask"].sum(-1))
        whole = max_by_attempt(lengths, self.told.samples.places, len(self.told.step.judged))
        return compute_overlong_cost(whole, self.cfg.decoding.trajectory_tokens, self.cfg.overlong)

    def _penalty(self, output: dict[str, Any], tokens: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return (n,) divergence to be subtracted from rewards, and (n, T) divergence if each token pays for itself
        (the first is then 0).
        """
        none = torch.zeros(tokens.shape[0], dtype=torch.float64, device=tokens.device)
        if not self.cfg.kl.coefficient or self.cfg.kl.place == "loss":
            return none, None
        old = output.get("old_per_token_logps")
        if old is None:
            with torch.no_grad():
                old, _ = self._logps(self.model, output, self.args.per_device_train_batch_size)
        kl = estimate_token_kl(old, output["ref_per_token_logps"], self.cfg.kl.estimator)
        if self.cfg.kl.place == "reward":
            return compute_divergence_cost(kl, tokens, self.cfg.kl.coefficient), None
        return none, kl

    def _to_go(self, rewards: Tensor, kl: Tensor, bearing: Tensor, counted: Tensor) -> Tensor:
        """Return (n, T) Reinforce++ advantages, whitened over the tokens of all ranks."""
        counted_rewards = torch.where(counted, rewards, torch.zeros_like(rewards))
        returns = compute_token_returns(counted_rewards, kl, bearing, self.cfg.kl.coefficient)
        paid = self.accelerator.gather(compute_divergence_cost(kl, bearing, self.cfg.kl.coefficient))
        assert self.told is not None
        later = sum_later_samples(paid, self.told.samples.places)[self.told.samples.own(self.ranks)]
        returns = torch.where(bearing, returns - later.unsqueeze(-1), returns)
        width = returns.shape[1]
        gathered = [
            self.accelerator.gather(self.accelerator.pad_across_processes(part, dim=1))
            for part in (returns, bearing.long())
        ]
        whole = token_advantages(
            gathered[0], gathered[1], gathered[1].bool().any(-1), self.cfg.advantage.epsilon
        )  # fmt: skip
        start = self.ranks.rank * returns.shape[0]
        return whole[start : start + returns.shape[0], :width]

    def _logps(self, model: Any, inputs: dict[str, Any], size: int | None = None) -> tuple[Tensor, Tensor]:
        """Return (n, T) log-probabilities and entropies of completions; attempts of similar lengths pass the model
        together.

        TRL pads a whole generation batch to its longest attempt, which is often three times the mean. Several processes
        make one pass each, since their communication in it has to match.
        """
        prompts, completions = inputs["prompt_mask"].sum(-1), inputs["completion_mask"].sum(-1)
        width, wide = inputs["completion_ids"].shape[1], inputs["prompt_ids"].shape[1]
        lengths = (prompts + completions).tolist()
        parts = group_similar_lengths(lengths) if self.accelerator.num_processes == 1 else [list(range(len(lengths)))]
        passes: list[tuple[Tensor, Tensor]] = []
        for part in parts:
            # Prompts are padded on the left, completions on the right.
            before, after = wide - int(prompts[part].max()), max(int(completions[part].max()), 1)
            ids, seen = (
                torch.cat([inputs[f"prompt_{kind}"][part, before:], inputs[f"completion_{kind}"][part, :after]], dim=1)
                for kind in ("ids", "mask")
            )
            logps, entropies, _ = self._get_per_token_logps_and_entropies(
                model, ids, seen, after, batch_size=size, compute_entropy=True
            )
            passes.append((pad(logps, (0, width - after)), pad(entropies, (0, width - after))))
        back = torch.tensor([place for part in parts for place in part], device=prompts.device).argsort()
        return torch.cat([logps for logps, _ in passes])[back], torch.cat([entropies for _, entropies in passes])[back]

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: Tensor, mask: Tensor, kept: int, batch_size: int | None = None, **rest: Any
    ) -> Any:
        """Call TRL's method with as many sequences at a time as the budget of tokens allows on every rank."""
        budget = self.cfg.hardware.micro_tokens
        if budget and batch_size:
            passes = -(-len(input_ids) // max(1, budget // input_ids.shape[1]))
            batch_size = -(-len(input_ids) // make_rank_maximum(self.accelerator)(passes))
        return super()._get_per_token_logps_and_entropies(model, input_ids, mask, kept, batch_size, **rest)

    def compute_loss(self, model: Any, inputs: dict[str, Any], *given: Any, **rest: Any) -> Any:
        """Return TRL's loss of a batch; with a budget of tokens, over its micro batches."""
        budget = self.cfg.hardware.micro_tokens
        if not budget:
            return super().compute_loss(model, inputs, *given, **rest)
        lengths = (inputs["prompt_mask"].sum(-1) + inputs["completion_mask"].sum(-1)).tolist()
        parts = split_alike_on_ranks(lengths, budget, make_rank_maximum(self.accelerator))
        whole = super().compute_loss

        def compute_part_loss(part: list[int]) -> Tensor:
            with self.compute_loss_context_manager():
                rows = select_batch_rows(inputs, part, len(lengths)) | {"budgeted": len(parts)}
                loss: Tensor = whole(model, rows, *given, **rest)
            return loss

        return accumulate_loss(self.accelerator, model, parts, compute_part_loss, sharded=is_sharded(self.cfg.hardware))

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        """Return the loss of a micro batch. If attempts have several samples each, as many pass the model in sequence
        as a micro batch has attempts, unless a budget of tokens has made parts already.
        """
        rows = len(inputs["completion_ids"])
        most = rows if self.cfg.hardware.micro_tokens else self.args.per_device_train_batch_size
        parts = [list(range(start, min(start + most, rows))) for start in range(0, rows, most)]

        def compute_part_loss(part: list[int]) -> Tensor:
            count = len(parts) * inputs.get("budgeted", 1)
            return self._compute_part_loss(model, select_batch_rows(inputs, part, rows), count)

        return accumulate_loss(self.accelerator, model, parts, compute_part_loss, sharded=is_sharded(self.cfg.hardware))

    def _compute_part_loss(self, model: Any, inputs: dict[str, Any], parts: int) -> Tensor:
        """Return the loss of one of so many parts of a micro batch."""
        logps, entropies = self._logps(model, inputs)
        tokens = inputs["tool_mask"] * inputs["completion_mask"]
        old = inputs.get("old_per_token_logps")
        old = logps.detach() if old is None else old
        drawn_logps = inputs["sampling_per_token_logps"]
        bearing = tokens.bool() & inputs["counted"].unsqueeze(-1)
        weights, cut = sampling_weights(old, drawn_logps, bearing, self.cfg.correction)
        batch = Batch(
            logps=logps,
            old_logps=old,
            advantages=inputs["advantages"],
            tokens=tokens.bool(),
            counted=inputs["counted"],
            reference_logps=inputs.get("ref_per_token_logps"),
            attempt_tokens=inputs["attempt_tokens"],
            weights=None if self.cfg.correction.kind == "none" else weights,
        )
        loss, statistics = policy_loss(
            batch, self.cfg.loss, self.cfg.kl, inputs["divisor"], self.cfg.decoding.trajectory_tokens
        )
        if self.cfg.loss.form == "bnpo":
            # Each part has its own divisor, and TRL takes the mean over micro batches.
            loss = loss / (self.current_gradient_accumulation_steps * parts)
        if not bool(torch.isfinite(loss)):
            raise Diverged(
                f"The loss of step {self.state.global_step + 1} is no number: lower optimiser.learning_rate, or "
                "continue from the last checkpoint with another seed."
            )
        assert self.told is not None
        self.told.sums.add(statistics, entropies.detach(), (old - drawn_logps).detach(), tokens, cut)
        return loss


def group_similar_lengths(lengths: Sequence[int]) -> list[list[int]]:
    """Return indices by decreasing length, in parts in which no length is below half of the longest."""
    parts: list[list[int]] = []
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        if not parts or 2 * lengths[place] < lengths[parts[-1][0]]:
            parts.append([])
        parts[-1].append(place)
    return parts


def _provide_rollouts(prompts: list[Any], trainer: AgentTrainer) -> dict[str, list[Any]]:
    """Return this rank's share of the step's samples: TRL's rollout function. The prompts are placeholders, one per
    attempt.
    """
    step = trainer.roll(trainer)
    samples = step.samples(trainer.ranks, trainer.args.steps_per_generation)
    trainer.told = StepReport(step, samples, [], build_masks(step.rows(), trainer.cfg.dynamic_sampling))
    own_places = step.own(trainer.ranks)
    if len(own_places) != len(prompts):
        raise ValueError(f"a step of {len(own_places)} attempts a process where TRL asks for {len(prompts)}")
    pad, end = trainer.processing_class.pad_token_id, trainer.processing_class.eos_token_id
    # An attempt that was lost before its first turn has no tokens, and TRL wants some: none of these bears loss.
    return {
        "prompt_ids": [trace.prompt or [pad] for trace in samples.traces],
        "completion_ids": [trace.completion or [end] for trace in samples.traces],
        "logprobs": [trace.logprobs or [0.0] for trace in samples.traces],
        "env_mask": [trace.own or [0] for trace in samples.traces],
        "earned": [step.judged[place][1].reward for place in own_places],
    }


def earned(earned: list[float | None], **_: Any) -> list[float | None]:
    """Return the rewards of the attempts, None if unknown: TRL's reward function."""
    return earned
