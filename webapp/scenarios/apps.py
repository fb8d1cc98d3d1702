from django.apps import AppConfig


class ScenariosConfig(AppConfig):
    name = "webapp.scenarios"
    label = "scenarios"

    def ready(self) -> None:
        from webapp.lists.registry import register_list
        from webapp.scenarios.task_filters import TASKS

        register_list(TASKS, "scenarios:tasks")
