"""Report of how a dataset was frozen: part of its manifest, next to the hash of its rows, and of its card."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from synthesis.contracts import Frozen

ApartBy = Literal["environment", "behaviour"]


class ApartFrom(Frozen):
    """A dataset with which this one shares no environment, or no behaviour, by choice, independent of the split.

    `names` counts those kept out; `unknown` rows of that dataset name none, so that nothing is known about them.
    """

    dataset: str
    name: str
    sha256: str
    by: ApartBy
    names: int
    unknown: int = 0


class ExecutionReport(Frozen):
    """Results of the executions that the server repeated before the rows were frozen: end state and reward of a
    trajectory, the reward of a task's reference. Rows with another result (`differing`), and rows that could not be
    executed (`failed`), were left out. `without_reference` tasks are in the dataset and have nothing to execute.
    """

    executed: int
    differing: int = 0
    failed: int = 0
    without_reference: int = 0


class NearDuplicateReport(Frozen):
    """Held-out rows that have a near-duplicate among the training rows: instruction and calls at least `threshold`
    similar (cosine of word and letter n-grams). `compared` counts the distinct texts of both sides.
    """

    threshold: float
    compared: int
    rows: int
    listed: int


class DatasetReport(Frozen):
    """Report of how a dataset was frozen. A value of None was not computed (external files) or not requested.

    `words` is the selection in words at that time; `approval` counts rows by the review state of their task,
    `verifiers` tasks by the kind of their verifier, `weak` those with a check that looks for a text in the answer.
    """

    words: tuple[tuple[str, str], ...] = ()
    licence: str = ""
    sources: dict[str, int] = Field(default_factory=dict)
    approval: dict[str, int] = Field(default_factory=dict)
    verifiers: dict[str, int] = Field(default_factory=dict)
    weak: int = 0
    left_out: dict[str, int] = Field(default_factory=dict)
    environments_to_choose_from: int | None = None
    apart: tuple[ApartFrom, ...] = ()
    executed: ExecutionReport | None = None
    near_duplicates: NearDuplicateReport | None = None

    @property
    def sentence(self) -> str:
        """Sentence that must accompany every result, after rows and split; empty if there is nothing to add."""
        phrases = [f"no {apart.by} of {apart.name[:80]!r} in it" for apart in self.apart]
        near = self.near_duplicates
        if near is not None and near.rows:
            phrases.append(
                f"{near.rows:,} held out {'is' if near.rows == 1 else 'are'} nearly the same as one to learn from"
            )
        return "; ".join(phrases)
