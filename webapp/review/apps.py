from django.apps import AppConfig


class ReviewConfig(AppConfig):
    name = "webapp.review"
    label = "review"

    def ready(self) -> None:
        from webapp.review.carry_over import dismiss_decisions
        from webapp.scenarios.references import REPLACED

        if dismiss_decisions not in REPLACED:
            REPLACED.append(dismiss_decisions)
