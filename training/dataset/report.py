"""Report of how a dataset was frozen: what stands in its manifest beside the hash of its rows, and in its card."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from synthesis.contracts import Frozen

ApartBy = Literal["environment", "behaviour"]


class ApartFrom(Frozen):
    """A dataset that this one shares no environment, or no behaviour, with: by choice, whatever the split.

    `names` of them were kept out; `unknown` rows of it name none, so that nothing can be said of them."""

    dataset: str
    name: str
    sha256: str
    by: ApartBy
    names: int
    unknown: int = 0


class ExecutionReport(Frozen):
    """What the server executed again before the rows were frozen, and compared: end state and reward of a trajectory,
    the reward of a task's reference. What came out otherwise was left out (`differing`), and what could not be executed
    (`failed`). `without_reference` tasks are in the dataset and have nothing that could be executed."""

    executed: int
    differing: int = 0
    failed: int = 0
    without_reference: int = 0


class NearDuplicateReport(Frozen):
    """Held-out rows that have a near-duplicate among those to learn from: instruction and calls at least `threshold`
    similar (cosine of word and letter n-grams). `compared` are the different texts of both sides."""

    threshold: float
    compared: int
    rows: int
    listed: int


class DatasetReport(Frozen):
    """How a dataset was frozen. What is None was not done (files from outside) or not asked for.

    `words` is the selection in words as they were then; `approval` counts rows by the review state of their task."""

    words: tuple[tuple[str, str], ...] = ()
    licence: str = ""
    sources: dict[str, int] = Field(default_factory=dict)
    approval: dict[str, int] = Field(default_factory=dict)
    left_out: dict[str, int] = Field(default_factory=dict)
    environments_to_choose_from: int | None = None
    apart: tuple[ApartFrom, ...] = ()
    executed: ExecutionReport | None = None
    near_duplicates: NearDuplicateReport | None = None

    @property
    def sentence(self) -> str:
        """What has to stand beside every result, behind rows and split; empty where there is nothing to add."""
        told = [f"no {apart.by} of {apart.name[:80]!r} in it" for apart in self.apart]
        near = self.near_duplicates
        if near is not None and near.rows:
            told.append(
                f"{near.rows:,} held out {'is' if near.rows == 1 else 'are'} nearly the same as one to learn from"
            )
        return "; ".join(told)
