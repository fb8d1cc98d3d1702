"""Command at the start of an installation: the token of the worker beside it, and its packages."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from webapp.runs.local import installation
from webapp.runs.local.worker_process import ensure_token


class Command(BaseCommand):
    help = (
        "Give the training worker beside the site its token, and queue the installation of what it needs. "
        "ENVARIUM_TRAINING=off leaves both out."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.TRAINING:
            return
        ensure_token()
        state = installation.get_installation_state()
        if installation.start_installation_once() is not None:
            self.stdout.write(f"  training: its packages are installed in the background ({state.size})")
