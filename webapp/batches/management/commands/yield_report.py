"""`manage.py yield_report BATCH --json`: the yield of a batch, alone or beside another one."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from synthesis.errors import InputError
from webapp.batches.models import Batch
from webapp.batches.yields import services
from webapp.batches.yields.comparison import Difference, compare_figures
from webapp.batches.yields.schemas import YieldOut, build_yield_payload
from webapp.batches.yields.shared_environments import SharedEnvironments, compare_shared_environments
from webapp.common.commands import dump_json, report_in_one_line
from webapp.common.templatetags.show import counted


class Command(BaseCommand):
    help = (
        "Yield of a batch: by stage what entered, was kept, repaired, rejected; tokens, cost and time for one kept "
        "environment and one kept task; solve rates; faults of replies by model. With --with, next to another batch."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("batch", type=int, help="the number of the batch")
        parser.add_argument("--with", dest="other", type=int, help="the number of a batch to compare it with")
        parser.add_argument("--json", action="store_true", help="the result as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        with report_in_one_line():
            numbers = [options["batch"], *([options["other"]] if options["other"] is not None else [])]
            reads = [_read_yield(number) for number in numbers]
        lines, shared = _compare_yields(*reads) if len(reads) > 1 else ([], None)
        out = build_yield_payload(reads[0], reads[1] if len(reads) > 1 else None, lines, shared)
        if options["json"]:
            self.stdout.write(dump_json(YieldOut.model_validate(out).model_dump(mode="json")))
            return
        figures = reads[0].figures or {}
        for row in figures["stages"]:
            counts = ", ".join(
                f"{name} {row[name]:,}" for name in ("entered", "kept", "repaired", "rejected", "failed")
            )
            self.stdout.write(f"{row['stage']}: {counts}")
        for name in ("one_environment", "one_task"):
            self.stdout.write(f"{name.replace('_', ' ')}: {_describe_unit_cost(figures[name])}")
        for line in lines:
            self.stdout.write(_format_difference(line))
        if shared is None:
            return
        self.stdout.write(f"On {counted(len(shared.names), 'environment')} that both made tasks of:")
        for line in shared.lines:
            self.stdout.write(_format_difference(line))
        for words in shared.reservations:
            self.stdout.write(f"Not comparable: {words}")


def _compare_yields(
    first: services.YieldRead, second: services.YieldRead
) -> tuple[list[Difference], SharedEnvironments | None]:
    figures, others = first.figures or {}, second.figures or {}
    return compare_figures(figures, others), compare_shared_environments(first.batch, second.batch, figures, others)


def _read_yield(number: int) -> services.YieldRead:
    """Read the yield in this process, however large the batch is. Raises InputError."""
    batch = Batch.objects.filter(pk=number).first()
    if batch is None:
        raise InputError(f"There is no batch {number}. The list of batches shows their numbers.")
    row = services.store_yield(batch)
    return services.YieldRead(batch, row.figures, row.read_at)


def _describe_unit_cost(used: dict[str, Any] | None) -> str:
    if used is None:
        return "none was kept"
    return f"{used['tokens']:,.0f} tokens, cost {used['cost']:.4f}, {used['seconds']:,.1f} s of work"


def _format_difference(line: Difference) -> str:
    ends = "" if line.low is None else f" ({line.low:.4g} to {line.high:.4g})"
    return f"{line.words}: {line.first} and {line.second}{ends}"
