"""Samples of SFT that are tokenised on access, in training order."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import datasets
import torch
from torch import Tensor

KEPT = 32
"""Rows whose samples are kept: those of one row are adjacent in the order."""


class Tokenised(Protocol):
    """A sequence and its labels."""

    @property
    def input_ids(self) -> list[int]: ...

    @property
    def labels(self) -> list[int]: ...


@dataclass
class LazySamples:
    """Samples by row and by number within the row; `tokenise(row)` makes all samples of a row.

    A sample longer than `most` becomes a single token that bears no loss (`blank`), so that batches and steps stay as
    planned; `refused` is then the row's number from 1, else 0.
    """

    tokenise: Callable[[int], Sequence[Tokenised]]
    most: int
    blank: int
    ignored: int
    _kept: OrderedDict[int, Sequence[Tokenised]] = field(default_factory=OrderedDict)

    def __getstate__(self) -> dict[str, int]:
        """Return the state for the fingerprint that `datasets` makes of a transform, without the rows and the model.
        Processes that prefetch are forked, and hold the whole object.
        """
        return {"most": self.most, "blank": self.blank}

    def dataset(self, places: Sequence[tuple[int, int]]) -> datasets.Dataset:
        """Return a dataset of places that become samples when they are read."""
        columns = {"row": [row for row, _ in places], "number": [number for _, number in places]}
        return datasets.Dataset.from_dict(columns).with_transform(self.samples)

    def samples(self, places: Mapping[str, Sequence[int]]) -> dict[str, list[Any]]:
        """Return columns `input_ids`, `labels` and `refused` of the samples at places (columns `row` and `number`)."""
        made = [self._sample(row, number) for row, number in zip(places["row"], places["number"], strict=True)]
        ids, labels, refused = zip(*made, strict=True)
        return {"input_ids": list(ids), "labels": list(labels), "refused": list(refused)}

    def _sample(self, row: int, number: int) -> tuple[list[int], list[int], int]:
        sample = self._samples(row)[number]
        if len(sample.input_ids) > self.most:
            return [self.blank], [self.ignored], row + 1
        return sample.input_ids, sample.labels, 0

    def _samples(self, row: int) -> Sequence[Tokenised]:
        if row in self._kept:
            self._kept.move_to_end(row)
            return self._kept[row]
        samples = self._kept[row] = self.tokenise(row)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return samples


@dataclass(frozen=True)
class Collator:
    """Rows padded on the right: `input_ids`, `labels`, `attention_mask` (n, L) and `refused` (n,)."""

    pad: int
    ignored: int

    def __call__(self, samples: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        ids = [torch.tensor(sample["input_ids"]) for sample in samples]
        labels = [torch.tensor(sample["labels"]) for sample in samples]
        padded = torch.nn.utils.rnn.pad_sequence
        return {
            "input_ids": padded(ids, batch_first=True, padding_value=self.pad),
            "labels": padded(labels, batch_first=True, padding_value=self.ignored),
            "attention_mask": padded([torch.ones_like(row) for row in ids], batch_first=True),
            "refused": torch.tensor([sample["refused"] for sample in samples]),
        }
