from __future__ import annotations

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules

from synthesis.collector import exclude_from_collection


class JobsConfig(AppConfig):
    name = "webapp.jobs"
    label = "jobs"

    def ready(self) -> None:
        """Register every app's kinds of jobs, so that each process that creates or runs a job knows them all.

        Workers get the step that reports them to the health page, and their children get what they share.
        """
        with exclude_from_collection():
            autodiscover_modules("jobs")
        from webapp.celery import app
        from webapp.common.lists.registry import register_list
        from webapp.jobs import pool as _signals  # noqa: F401
        from webapp.jobs.heartbeat import Heartbeat
        from webapp.jobs.job_list import JOBS

        app.steps["consumer"].add(Heartbeat)
        register_list(JOBS, "jobs:list")
