"""TRL's SFT trainer with micro batches of a budget of tokens, and rows that stand one behind the other (packing)."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from trl import SFTTrainer
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

from training.config import Supervised
from training.placement.micro_batches import as_many, greatest, rows_of_batch, summed_loss
from training.placement.model_placement import sharded


class SampleTrainer(SFTTrainer):
    """Learns from `LazySamples`. `refused` holds the rows (from 1) whose samples were too long, `blank` how many."""

    def __init__(self, cfg: Supervised, **rest: Any) -> None:
        self.cfg = cfg
        self.refused: set[int] = set()
        self.blank = 0
        super().__init__(**rest)
        self._flat = DataCollatorForLanguageModeling(pad_token_id=self._tokenizer.pad_token_id, padding_free=True)

    def compute_loss(self, model: Any, inputs: dict[str, Any], *given: Any, **rest: Any) -> Any:
        """TRL's loss: over micro batches where there is a budget of tokens, in one row each where they are packed.

        Within a row an attention of its own and places from 0 keep sequences apart.
        """
        refused = [row for row in inputs.pop("refused").tolist() if row]
        self.refused.update(refused)
        self.blank += len(refused)
        whole = super().compute_loss
        lengths = inputs["attention_mask"].sum(-1).tolist()
        budget = self.cfg.hardware.micro_tokens
        if not budget:
            part = self._packed(inputs, lengths) if self.cfg.packing else inputs
            return whole(model, part, *given, **rest)
        parts = as_many(lengths, budget, greatest(self.accelerator), packed=self.cfg.packing)

        def loss_of(places: list[int]) -> Tensor:
            rows, mine = rows_of_batch(inputs, places, len(lengths)), [lengths[place] for place in places]
            part = self._packed(rows, mine) if self.cfg.packing else _trimmed(rows, max(mine))
            with self.compute_loss_context_manager():
                loss: Tensor = whole(model, part, *given, **rest)
            return loss

        return summed_loss(self.accelerator, model, parts, loss_of, sharded=sharded(self.cfg.hardware))

    def _packed(self, rows: dict[str, Any], lengths: list[int]) -> dict[str, Any]:
        examples = [
            {"input_ids": ids[:length].tolist(), "labels": labels[:length].tolist()}
            for ids, labels, length in zip(rows["input_ids"], rows["labels"], lengths, strict=True)
        ]
        packed: dict[str, Any] = self._prepare_inputs(self._flat(examples))
        return packed


def _trimmed(rows: dict[str, Any], width: int) -> dict[str, Any]:
    return {key: value[:, :width] if isinstance(value, Tensor) and value.dim() == 2 else value
            for key, value in rows.items()}  # fmt: skip
