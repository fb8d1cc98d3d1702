from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from synthesis.errors import EnvariumError
from synthesis.runtime import default_sandbox
from webapp.trajectories.demo import load_demo


class Command(BaseCommand):
    help = "Load the bundled starter environments, tasks and runs. Loading again changes nothing."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            done = load_demo(default_sandbox())
        except EnvariumError as error:
            raise CommandError(f"The starter set could not be loaded: {error}") from error
        self.stdout.write(str(done))
