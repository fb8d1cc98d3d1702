"""Training filters over stored trajectories, in order, ending with whether a conversation is stored that can be
written.

All training on stored trajectories goes through here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from synthesis.errors import FormatError
from synthesis.formats.sft import Conversation
from synthesis.tasks.trajectory_filters import FilterSettings, FilterTally, build_first_filters, build_last_filters
from webapp.trajectories.export.record_source import Origins, load_attempt_facts, read_stored_conversation
from webapp.trajectories.models import Trajectory

CHUNK = 20
"""Number of trajectories whose conversations are held at once."""
UNFIT = "conversation"
"""The last filter: its conversation is not stored, or does not fit the format."""
SOLVER_RUN = (
    "A try at its task's reference: no filter of its batch looked at it, teachers' runs are there to be learnt from"
)
NO_ENVIRONMENT = "It has no environment: nothing executed or judged it, and it has no task by which data is split"

Written = TypeVar("Written")


class FilterCounts:
    """Counts of what each filter saw and left out (`tally`), of the reasons why conversations were not written
    (`reasons`), and of trajectories that no filter sees: those without an environment (`foreign`) and those made for a
    reference (`solvers`)."""

    def __init__(self, sifting: FilterSettings) -> None:
        self.filters = (*build_first_filters(), *build_last_filters(sifting))
        self.tally = FilterTally((*(rule.name for rule in self.filters), UNFIT))
        self.reasons: Counter[str] = Counter()
        self.foreign = 0
        self.solvers = 0
        self.origins = Origins()

    def passed(
        self, rows: Sequence[Trajectory], write: Callable[[Trajectory, Conversation], Written]
    ) -> Iterator[tuple[Trajectory, Written]]:
        """Yield those of `rows` (a chunk, with `record_source.COLUMNS`) that pass, with the result of `write`, which
        raises FormatError for a conversation that does not fit."""
        judged_rows = [row for row in rows if row.revision_id is not None]
        self.foreign += len(rows) - len(judged_rows)
        total, judged_rows = len(judged_rows), [row for row in judged_rows if not row.solver]
        self.solvers += total - len(judged_rows)
        runs = load_attempt_facts(judged_rows)
        fit = [
            row
            for row in judged_rows
            if all(self.tally.note(rule.name, rule.why(runs[row.pk])) for rule in self.filters)
        ]
        records = dict(Trajectory.objects.filter(pk__in=[row.pk for row in fit]).values_list("pk", "record"))
        self.origins.learn(row.revision_id or 0 for row in fit)
        for row in fit:
            offered = self.origins.of(row.revision_id or 0).offered
            try:
                written = write(row, read_stored_conversation(records.get(row.pk) or {}, row.provenance, offered))
            except FormatError as error:
                self.tally.note(UNFIT, str(error))
                self.reasons[error.reason[:300]] += 1
                continue
            self.tally.note(UNFIT, "")
            yield row, written
