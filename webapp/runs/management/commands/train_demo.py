"""`manage.py train_demo --wait --json`: the demo from the command line."""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from synthesis.errors import EnvariumError
from webapp.runs.local.demo import ABOUT, train_demo
from webapp.runs.models import OPEN_STATES, TrainingJob, TrainingState

LOOK_SECONDS = 2.0


class Command(BaseCommand):
    help = f"Train the demo: SFT on a careless teacher's work, then RL. {ABOUT}"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--wait", action="store_true", help="until both jobs have ended")
        parser.add_argument("--json", action="store_true", help="print ids, states and held-out success as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        began = time.monotonic()
        try:
            jobs = train_demo(None, options["seed"])
        except EnvariumError as error:
            raise CommandError(str(error)) from error
        if options["wait"]:
            self._wait(jobs, quiet=options["json"])
        summary = {
            "seed": options["seed"],
            "jobs": [_summarize_job(job) for job in jobs],
            "seconds": time.monotonic() - began,
        }
        if options["json"]:
            self.stdout.write(json.dumps(summary))
        else:
            for job in jobs:
                self.stdout.write(f"{job.public_id}  {job.state}  {job.name}")
        if options["wait"] and any(job.state != TrainingState.SUCCEEDED for job in jobs):
            raise CommandError("; ".join(f"{job.public_id} {job.state}: {job.error or job.reason}" for job in jobs))

    def _wait(self, jobs: tuple[TrainingJob, ...], *, quiet: bool) -> None:
        last_line = ""
        while any(job.state in OPEN_STATES and job.state != TrainingState.PAUSED for job in jobs):
            time.sleep(LOOK_SECONDS)
            for job in jobs:
                job.refresh_from_db()
            now = ", ".join(f"{job.method} {job.state} {job.step}/{job.total_steps}" for job in jobs)
            if now != last_line and not quiet:
                self.stdout.write(now)
            last_line = now


def _summarize_job(job: TrainingJob) -> dict[str, Any]:
    evaluations = (job.result or {}).get("evaluations", [])
    return {
        "id": job.public_id,
        "method": job.method,
        "state": job.state,
        "error": job.error,
        "before": evaluations[0]["success"] if evaluations else None,
        "after": evaluations[-1]["success"] if len(evaluations) > 1 else None,
        "sampled": [evaluation.get("sampled") for evaluation in evaluations],
    }
