"""TRL's SFT trainer with micro batches of a budget of tokens, and packed rows."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from trl import SFTTrainer
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

from training.config import Supervised
from training.placement.micro_batches import accumulate_loss, make_rank_maximum, select_batch_rows, split_alike_on_ranks
from training.placement.model_placement import is_sharded


class SampleTrainer(SFTTrainer):
    """Trainer on `LazySamples`. `refused` holds the rows (from 1) with samples that were too long, `blank` counts these
    samples.
    """

    def __init__(self, cfg: Supervised, **rest: Any) -> None:
        self.cfg = cfg
        self.refused: set[int] = set()
        self.blank = 0
        super().__init__(**rest)
        self._flat = DataCollatorForLanguageModeling(pad_token_id=self._tokenizer.pad_token_id, padding_free=True)

    def compute_loss(self, model: Any, inputs: dict[str, Any], *given: Any, **rest: Any) -> Any:
        """Return TRL's loss: over micro batches if there is a budget of tokens, in one row each if they are packed.

        Within a row, separate attention and positions from 0 keep sequences apart.
        """
        refused = [row for row in inputs.pop("refused").tolist() if row]
        self.refused.update(refused)
        self.blank += len(refused)
        whole = super().compute_loss
        lengths = inputs["attention_mask"].sum(-1).tolist()
        budget = self.cfg.hardware.micro_tokens
        if not budget:
            part = self._pack_rows(inputs, lengths) if self.cfg.packing else inputs
            return whole(model, part, *given, **rest)
        parts = split_alike_on_ranks(lengths, budget, make_rank_maximum(self.accelerator), packed=self.cfg.packing)

        def compute_part_loss(places: list[int]) -> Tensor:
            rows, mine = select_batch_rows(inputs, places, len(lengths)), [lengths[place] for place in places]
            part = self._pack_rows(rows, mine) if self.cfg.packing else _trim_rows(rows, max(mine))
            with self.compute_loss_context_manager():
                loss: Tensor = whole(model, part, *given, **rest)
            return loss

        return accumulate_loss(self.accelerator, model, parts, compute_part_loss, sharded=is_sharded(self.cfg.hardware))

    def _pack_rows(self, rows: dict[str, Any], lengths: list[int]) -> dict[str, Any]:
        examples = [
            {"input_ids": ids[:length].tolist(), "labels": labels[:length].tolist()}
            for ids, labels, length in zip(rows["input_ids"], rows["labels"], lengths, strict=True)
        ]
        packed: dict[str, Any] = self._prepare_inputs(self._flat(examples))
        return packed


def _trim_rows(rows: dict[str, Any], width: int) -> dict[str, Any]:
    return {key: value[:, :width] if isinstance(value, Tensor) and value.dim() == 2 else value
            for key, value in rows.items()}  # fmt: skip
