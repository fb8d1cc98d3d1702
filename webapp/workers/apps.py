from __future__ import annotations

from django.apps import AppConfig


class WorkersConfig(AppConfig):
    name = "webapp.workers"
    label = "workers"

    def ready(self) -> None:
        from webapp.runs.preflight.candidates import register_source  # models are there only now
        from webapp.workers.registration import list_away_candidates, list_live_candidates

        register_source("workers", list_live_candidates, list_away_candidates)
