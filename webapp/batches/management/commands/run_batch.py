from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from synthesis.errors import InputError
from synthesis.pipeline import PIPELINES
from synthesis.scripted import list_bundled_themes
from webapp.batches.engine.cast import fill_in_defaults
from webapp.batches.engine.theme_source import build_environment_specs, build_theme_specs
from webapp.batches.launch.readiness import check_readiness
from webapp.batches.management.command_run import (
    build_planted_report,
    build_report,
    list_unkept_items,
    run_batch_to_end,
)
from webapp.batches.models import BatchState
from webapp.batches.presets import OURS, TITLES
from webapp.batches.schemas import build_settings
from webapp.batches.services import build_theme_spec, create_batch, resume_batch
from webapp.batches.spec import LOCAL, ROLES, SCRIPTED
from webapp.common.commands import dump_json, make_progress_writer, report_in_one_line
from webapp.common.templatetags.show import plain


class Command(BaseCommand):
    help = (
        "Run a synthesis batch to its end: over the bundled themes with the scripted provider (--demo), or over kept "
        "themes and environments. Calls that were made before are not made again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--demo", action="store_true", help="the bundled themes, without any LLM")
        parser.add_argument("--theme", type=int, action="append", default=[], help="the number of a kept theme")
        parser.add_argument("--environment", type=int, action="append", default=[], help="the number of one to grow on")
        parser.add_argument("--resume", type=int, help="go on with this batch instead of making one")
        parser.add_argument("--name", default="")
        parser.add_argument("--variant", choices=tuple(PIPELINES), help="whose pipeline: the stages to go through")
        parser.add_argument("--preset", choices=tuple(TITLES), default=OURS, help="whose choices: ours or the paper's")
        parser.add_argument("--tester", choices=("planned", "free"), help="who chooses the calls of an assessment")
        parser.add_argument("--cap", type=float, help="spend cap")
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--scenarios", type=int, help="initial states an environment")
        parser.add_argument("--tasks", type=int, help="tasks a scenario")
        parser.add_argument("--at-once", type=int, default=16, help="items at once")
        parser.add_argument(
            "--prompt",
            action="append",
            default=[],
            metavar="NAME=FILE",
            help="a text of its own of a prompt (tasks/instruction=mine.md), for this batch alone",
        )
        parser.add_argument("--json", action="store_true", help="the result as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        with report_in_one_line():
            batch = resume_batch(None, options["resume"]) if options["resume"] else self._new(options)
            done = run_batch_to_end(batch, make_progress_writer(self.stderr.write))
            summary = build_report(done) | (build_planted_report(done) if done.scripted else {})
        for item in list_unkept_items(done):
            self.stderr.write(f"{item.path}: {item.state} in {item.stage} ({item.reason}): {plain(item.message)[:300]}")
        if options["json"]:
            self.stdout.write(dump_json(summary))
        else:
            self.stdout.write("\n".join(f"{name}: {value}" for name, value in summary.items()))
        if done.state not in (BatchState.DONE, BatchState.PAUSED):
            raise CommandError(f"The batch is {done.state}. {done.note}")

    def _new(self, options: dict[str, Any]) -> Any:
        specs = build_theme_specs(options["theme"]) + build_environment_specs(options["environment"])
        if options["demo"]:
            specs += [build_theme_spec(draft) for draft in list_bundled_themes(options["variant"] or "envscaler")]
        if not specs:
            raise InputError("Nothing to grow: give --demo, --theme with the number of a kept theme, or --environment.")
        stages = {name: options[name] for name in ("scenarios", "tasks", "tester") if options[name] is not None}
        changes: dict[str, Any] = {name: options[name] for name in ("preset", "seed", "at_once")} | {"stages": stages}
        changes |= {"variant": options["variant"]} if options["variant"] else {}
        changes |= {"cap": options["cap"]} if options["cap"] is not None else {}
        changes |= {"models": dict.fromkeys(ROLES, SCRIPTED), "embeddings": LOCAL} if options["demo"] else {}
        changes |= {"prompts": dict(map(_read_prompt_trial, options["prompt"]))} if options["prompt"] else {}
        name = options["name"] or ("Demo" if options["demo"] else "")
        settings = build_settings(changes)
        readiness = check_readiness(specs, fill_in_defaults(settings))
        if not readiness.can_run:
            raise InputError(readiness.advice)
        if readiness.refused:
            self.stderr.write(plain(readiness.advice))
        return create_batch(None, name, specs, settings, settings.pipeline)


def _read_prompt_trial(said: str) -> tuple[str, str]:
    """Return (name, text) of `NAME=FILE`. Raises InputError."""
    name, _, file = said.partition("=")
    try:
        return name, Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"--prompt {said[:120]}: give a name and a file of UTF-8 text ({error}).") from None
