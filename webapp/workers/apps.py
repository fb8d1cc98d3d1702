from __future__ import annotations

from django.apps import AppConfig


class WorkersConfig(AppConfig):
    name = "webapp.workers"
    label = "workers"

    def ready(self) -> None:
        from webapp.runs.candidates import register  # models are there only now
        from webapp.workers.registration import away_candidates, live_candidates

        register("workers", live_candidates, away_candidates)
