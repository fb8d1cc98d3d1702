from __future__ import annotations

from django.apps import AppConfig


class RunsConfig(AppConfig):
    name = "webapp.runs"
    label = "runs"

    def ready(self) -> None:
        from webapp.common.lists.registry import register_list
        from webapp.datasets.queries import FILE_SOURCES
        from webapp.datasets.services import HOLDERS  # models are there only now
        from webapp.runs.curves.result_files import PREFIX, SOURCE
        from webapp.runs.job_list import TRAINING_JOBS
        from webapp.runs.local.worker_process import list_startable_candidates
        from webapp.runs.preflight.candidates import register_source
        from webapp.runs.queries import describe_blocking_jobs

        register_list(TRAINING_JOBS, "runs:list")
        register_source("beside the site", list_startable_candidates)
        HOLDERS["training jobs"] = describe_blocking_jobs
        FILE_SOURCES[PREFIX] = SOURCE
