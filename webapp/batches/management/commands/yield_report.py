"""`manage.py yield_report BATCH --json`: what came of a batch, alone or beside another one."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from synthesis.errors import InputError
from webapp.batches.models import Batch
from webapp.batches.yields import services
from webapp.batches.yields.comparison import Difference, compared
from webapp.batches.yields.schemas import YieldOut, yield_out
from webapp.commands import as_json, one_clear_line


class Command(BaseCommand):
    help = (
        "Yield of a batch: by stage what entered, was kept, repaired, rejected; tokens, cost and time for one kept "
        "environment and one kept task; solve rates; faults of replies by model. With --with beside another batch."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("batch", type=int, help="the number of the batch")
        parser.add_argument("--with", dest="other", type=int, help="the number of a batch to compare it with")
        parser.add_argument("--json", action="store_true", help="the result as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        with one_clear_line():
            numbers = [options["batch"], *([options["other"]] if options["other"] is not None else [])]
            reads = [_read(number) for number in numbers]
        lines = compared(reads[0].figures or {}, reads[1].figures or {}) if len(reads) > 1 else []
        out = yield_out(reads[0], reads[1] if len(reads) > 1 else None, lines)
        if options["json"]:
            self.stdout.write(as_json(YieldOut.model_validate(out).model_dump(mode="json")))
            return
        figures = reads[0].figures or {}
        for row in figures["stages"]:
            counts = ", ".join(
                f"{name} {row[name]:,}" for name in ("entered", "kept", "repaired", "rejected", "failed")
            )
            self.stdout.write(f"{row['stage']}: {counts}")
        for name in ("one_environment", "one_task"):
            self.stdout.write(f"{name.replace('_', ' ')}: {_one(figures[name])}")
        for line in lines:
            self.stdout.write(_said(line))


def _read(number: int) -> services.YieldRead:
    """Read here and now, however large the batch is. Raises InputError."""
    batch = Batch.objects.filter(pk=number).first()
    if batch is None:
        raise InputError(f"There is no batch {number}. Their numbers stand in the list of batches.")
    row = services.keep(batch)
    return services.YieldRead(batch, row.figures, row.read_at)


def _one(used: dict[str, Any] | None) -> str:
    if used is None:
        return "none was kept"
    return f"{used['tokens']:,.0f} tokens, cost {used['cost']:.4f}, {used['seconds']:,.1f} s of work"


def _said(line: Difference) -> str:
    ends = "" if line.low is None else f" ({line.low:.4g} to {line.high:.4g})"
    return f"{line.words}: {line.first} and {line.second}{ends}"
