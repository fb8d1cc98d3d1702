from django.apps import AppConfig


class BatchesConfig(AppConfig):
    name = "webapp.batches"
    label = "batches"

    def ready(self) -> None:
        from webapp.batches.pages.batch_list import BATCHES
        from webapp.common.lists.registry import register_list

        register_list(BATCHES, "batches:list")
