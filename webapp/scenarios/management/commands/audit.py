"""`manage.py audit --source starter --json`: audit tasks at once, and report how good their verifiers are."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import QuerySet

from synthesis.errors import InputError
from synthesis.formats.values import clean_text
from synthesis.runtime import get_default_sandbox
from synthesis.seeded_faults.audit_measure import MOST_WRONG, list_bundled_tasks, measure_audit
from synthesis.starter import SOURCE, load_bundle
from webapp.common.commands import BAD_HOUSE, dump_json, make_progress_writer, parse_source_name, report_in_one_line
from webapp.common.templatetags.show import plain
from webapp.scenarios.audits.audit_job import audit_tasks
from webapp.scenarios.audits.report import count_audit_results, count_by_source, list_fresh_faults
from webapp.scenarios.audits.rubric_judge import find_registered_judge
from webapp.scenarios.audits.sound_tasks import draw_sound_tasks
from webapp.scenarios.models import AUDIT_RESULTS, Task
from webapp.scenarios.starter_set import load_starter

SKIPPED_SHOWN = 100


class Command(BaseCommand):
    help = (
        "Audit tasks: what doing nothing, the reference and mutants of it earn. Known audits are not repeated, "
        "superseded tasks are skipped."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("--source", type=parse_source_name, help="all tasks of a source; `starter` is loaded first")
        which.add_argument("--all", action="store_true", help="every task, reported by source")
        which.add_argument("--task", metavar="KEY", help="the tasks with this key or number")
        which.add_argument("--environment", metavar="KEY", help="the tasks of the environment with this key")
        which.add_argument(
            "--seeded-faults",
            action="store_true",
            help="measure the audit itself: verifiers of bundled tasks, and of green ones stored here, with one seeded "
            "fault each, and sound ones",
        )
        parser.add_argument("--fresh", action="store_true", help="compute again what is known")
        parser.add_argument("--notes", action="store_true", help="list notes too, not only faults")
        parser.add_argument("--json", action="store_true", help="print the result as one JSON object, last")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["seeded_faults"]:
            self.measure_audit(options)
            return
        with report_in_one_line():
            sandbox = get_default_sandbox()
            if options["source"] == SOURCE:
                environments, records, _runs = load_bundle()
                load_starter(sandbox, environments, records)
            tasks = select_tasks(options)
            ids = list(tasks.filter(current__isnull=False).order_by("id").values_list("id", flat=True))
            if not ids:
                raise InputError("No task is chosen: look at `manage.py audit --help`, or import tasks first.")
            tell = make_progress_writer(self.stderr.write)
            audit_counts = audit_tasks(sandbox, ids, tell, judge=find_registered_judge(), fresh=options["fresh"])
        result = self.report(tasks, options, audit_counts)
        if options["json"]:
            self.stdout.write(dump_json(result))
        if audit_counts["failed"]:
            raise CommandError(f"{len(audit_counts['failed'])} tasks could not be audited.", returncode=BAD_HOUSE)
        if tasks.filter(source=SOURCE).exclude(audit_state="green").exists():
            raise CommandError("A task of the starter set is not green.", returncode=1)

    def measure_audit(self, options: dict[str, Any]) -> None:
        """Audit verifiers with a seeded fault and sound ones, and report how many audits are wrong."""
        with report_in_one_line():
            sandbox = get_default_sandbox()
            judged_tasks = [*list_bundled_tasks(sandbox), *draw_sound_tasks()]
            measurement = measure_audit(sandbox, judged_tasks, tell=self.stderr.write)
        for wrong_case in measurement.wrong:
            self.stderr.write(
                f"{wrong_case.state} {plain(wrong_case.kind)}: {plain(wrong_case.task)}: {plain(wrong_case.about)}. "
                f"{plain(wrong_case.shown)}"
            )
            for line in wrong_case.why:
                self.stderr.write(f"  {plain(line)}")
        self.stderr.write(
            f"{measurement.false_green:.1%} of {measurement.faulty} faulty verifiers are green, "
            f"{measurement.false_red:.1%} of {measurement.sound} sound ones red."
        )
        if options["json"]:
            self.stdout.write(dump_json(measurement.model_dump()))
        if max(measurement.false_green, measurement.false_red) > MOST_WRONG:
            raise CommandError(f"More than {MOST_WRONG:.0%} came out wrong.", returncode=1)

    def report(self, tasks: QuerySet[Task], options: dict[str, Any], done: dict[str, Any]) -> dict[str, Any]:
        faults_by_task = list_fresh_faults(tasks, notes=options["notes"])
        result: dict[str, Any] = {"audited": done["audited"], "cached": done["cached"], "failed": done["failed"]}
        if options["all"]:
            names = Task.objects.order_by("source").values_list("source", flat=True).distinct()
            parts = count_by_source(names)
            result["sources"] = parts
        else:
            parts = {options["source"] or options["environment"] or options["task"]: count_audit_results(tasks)}
            result |= next(iter(parts.values()))
        result["faults"] = faults_by_task
        result["skipped"] = list_skipped_tasks(tasks)
        for name, part in parts.items():
            self.stderr.write(format_result_line(plain(name), part))
        for key, lines in faults_by_task.items():
            for line in lines:
                self.stderr.write(f"  {plain(key)}: {line['kind']}: {plain(line['message'][:300])}")
        for line in done["failed"]:
            self.stderr.write(f"  {plain(line['place'])}: {plain(line['reason'])}")
        for line in result["skipped"][:SKIPPED_SHOWN]:
            self.stderr.write(f"  skipped: {plain(line['place'])}: superseded: {plain(line['reason'])}")
        if len(result["skipped"]) > SKIPPED_SHOWN:
            self.stderr.write(f"  and {len(result['skipped']) - SKIPPED_SHOWN} more, listed by `--json`")
        return result


def select_tasks(options: dict[str, Any]) -> QuerySet[Task]:
    rows = Task.objects.all()
    if options["source"]:
        return rows.filter(source=options["source"])
    if options["environment"]:
        return rows.filter(environment__key=options["environment"])
    if options["task"]:
        key = options["task"]
        by_key = rows.filter(key=key)
        number = key.isascii() and key.isdecimal() and len(key) < 19
        return rows.filter(pk=int(key)) if number and not by_key.exists() else by_key
    return rows


def list_skipped_tasks(tasks: QuerySet[Task]) -> list[dict[str, str]]:
    """Return superseded tasks with the reason: their checks can no longer be run."""
    rows = tasks.filter(superseded=True).order_by("id").values_list("key", "current__superseded")
    return [{"place": clean_text(key), "reason": reason} for key, reason in rows]


def format_result_line(name: str, part: dict[str, Any]) -> str:
    states = ", ".join(f"{part[state]} {state}" for state in AUDIT_RESULTS)
    line = f"{name}: {part['tasks']} task{'' if part['tasks'] == 1 else 's'}, {states}"
    if part["noop_max"] is not None:
        line += f"; doing nothing earns at most {part['noop_max']}"
    if part["references"]:
        line += f"; references at least {part['reference_min']}; {part['mutants_below_reference']} of "
        line += f"{part['mutants']} mutants below it; {part['nondeterministic']} not deterministic"
    return line
