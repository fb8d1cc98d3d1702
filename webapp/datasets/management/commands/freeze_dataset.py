"""Freeze a dataset of tasks or trajectories, here and now."""

from __future__ import annotations

import time
from typing import Any, get_args

from django.core.management import BaseCommand, CommandError, CommandParser

from synthesis.errors import InputError
from training.dataset import ApartBy, Split
from webapp.datasets.models import Dataset, DatasetState
from webapp.datasets.preview import UNITS
from webapp.datasets.queries import get_sentence
from webapp.datasets.selection import ApprovalName, parse_selection
from webapp.datasets.services import create_dataset
from webapp.jobs import jobs
from webapp.jobs.models import Job


class Command(BaseCommand):
    help = "Freeze a selection of tasks or trajectories as a dataset; prints its id and what it holds."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--kind", choices=("tasks", "trajectories"), default="tasks")
        parser.add_argument("--source", default="", help="such as starter; any by default")
        parser.add_argument("--audit", default="", choices=("green", "red", "incomplete", "unproven", "stale", "none"))
        parser.add_argument("--approval", default="", choices=[name for name in get_args(ApprovalName) if name])
        parser.add_argument("--environment-count", type=int, help="so many environments; 10 are within 20")
        parser.add_argument("--environment-seed", type=int, default=0)
        parser.add_argument("--apart-from", action="append", default=[], help="a dataset (ds-…); may be repeated")
        parser.add_argument("--apart-by", choices=get_args(ApartBy), default="environment")
        parser.add_argument("--licence", default="", help="such as apache-2.0, for the dataset's card")
        parser.add_argument("--environment", type=int, action="append", default=[], help="an id; may be repeated")
        parser.add_argument("--unit", choices=UNITS, default="environment")
        parser.add_argument("--test-share", type=float, default=0.2)
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--name", default="")

    def handle(self, **told: Any) -> None:
        names = ("kind", "source", "audit", "approval", "environment_count", "environment_seed", "apart_by")
        selected = {name: told[name] for name in names} | {"apart_from": tuple(told["apart_from"])}
        try:
            choice = parse_selection(selected | {"environments": tuple(told["environment"])})
            split = Split(unit=told["unit"], test_share=told["test_share"], seed=told["seed"])
        except (InputError, ValueError) as error:
            raise CommandError(str(error)) from error
        try:
            row = create_dataset(None, choice, split, told["name"], told["licence"])
        except InputError as error:
            raise CommandError(str(error)) from error
        assert row.job_id is not None
        jobs.run_job(row.job_id)  # does nothing if a worker was faster
        while Job.objects.get(pk=row.job_id).is_open:
            time.sleep(0.2)
        row = Dataset.objects.get(pk=row.pk)
        if row.state != DatasetState.READY:
            raise CommandError(row.error)
        self.stdout.write(f"{row.public_id}: {get_sentence(row)} (content {row.sha256[:12]})")
        for reason, number in row.left_out.items():
            self.stdout.write(f"  left out {number}: {reason}")
