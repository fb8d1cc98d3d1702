from __future__ import annotations

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class JobsConfig(AppConfig):
    name = "webapp.jobs"
    label = "jobs"

    def ready(self) -> None:
        """Register every app's kinds of jobs: whatever process creates one, or runs it, knows them all."""
        autodiscover_modules("jobs")
