"""`manage.py export_sft OUT.jsonl`: trajectories as training data, with the manifest in OUT.manifest.json."""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from synthesis.errors import InputError
from synthesis.formats.sft import FORMATS, Shape
from synthesis.stages import ActionRange
from synthesis.tasks.trajectory_filters import FilterSettings
from webapp.accounts.services import write_audit_entry
from webapp.common.commands import (
    dump_json,
    make_progress_writer,
    parse_source_name,
    report_in_one_line,
    require_known_source,
    write_file,
)
from webapp.common.templatetags.show import plain
from webapp.trajectories.export.archive import format_manifest
from webapp.trajectories.export.lines import DATA, Export
from webapp.trajectories.export.spec import ExportSpec, Selection, parse_range
from webapp.trajectories.services import list_sources
from webapp.trajectories.trajectory_list import filter_trajectories


def parse_action_range(text: str) -> ActionRange:
    try:
        return parse_range(text)
    except InputError as error:
        raise ArgumentTypeError(str(error)) from error


def parse_share(text: str) -> float:
    if not 0 <= float(text) <= 1:
        raise ValueError(text)
    return float(text)


class Command(BaseCommand):
    help = "Export trajectories as records for supervised fine-tuning, one per line, with a manifest next to the file."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="OUT.jsonl; the manifest becomes OUT.manifest.json")
        parser.add_argument("--format", choices=FORMATS, default="trl")
        parser.add_argument("--no-reasoning", action="store_true", help="leave the agent's reasoning out")
        parser.add_argument(
            "--mask-history", action="store_true", help="one record for each turn: the last turn alone is to be learnt"
        )
        parser.add_argument("--least-reward", type=parse_share, default=1.0)
        parser.add_argument("--actions", type=parse_action_range, default=None, help="3-29, or released")
        parser.add_argument("--source", type=parse_source_name, help="only trajectories of this source")
        parser.add_argument("--policy", default="", help="what the policy's name begins with")
        parser.add_argument("--environment", type=int, help="the number of an environment")
        parser.add_argument("--task", type=int, help="the number of a task")
        parser.add_argument("--json", action="store_true", help="print the manifest as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        names = ("source", "policy", "environment", "task")
        spec = ExportSpec(
            selection=Selection(**{name: options[name] for name in names if options[name] is not None}),
            shape=Shape(
                format=options["format"], reasoning=not options["no_reasoning"], mask_history=options["mask_history"]
            ),
            sifting=FilterSettings(least_reward=options["least_reward"], action_range=options["actions"]),
        )
        target: Path = options["file"]
        with report_in_one_line():
            require_known_source(spec.selection.source, list_sources())
            total, tell = filter_trajectories(spec.selection.filters()).count(), make_progress_writer(self.stderr.write)
            export = Export(spec, lambda seen: tell(seen, total, "trajectories"))
            export.name = target.name or DATA
            write_audit_entry(None, "trajectories.export_training", **spec.summary())
            write_file(target, (piece.decode() for piece in export.pieces()))
            write_file(target.with_suffix(".manifest.json"), [format_manifest(export)])
        for count in export.sieve.tally.counts():
            self.stderr.write(f"{count.name}: {count.dropped} of {count.seen} left out")
        for reason, number in export.sieve.reasons.most_common():
            self.stderr.write(f"  {number}: {plain(reason)}")
        self.stderr.write(f"{export.records} records of {export.kept} trajectories in {target}")
        if options["json"]:
            self.stdout.write(dump_json(export.manifest()))
