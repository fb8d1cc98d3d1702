from django.apps import AppConfig


class ScenariosConfig(AppConfig):
    name = "webapp.scenarios"
    label = "scenarios"

    def ready(self) -> None:
        from webapp.lists.registry import register_list
        from webapp.scenarios.task_filters import TASKS
        from webapp.scenarios.tree_parts import REVIEWED, tasks
        from webapp.taxonomy.changes.affected import register_affected
        from webapp.taxonomy.coverage import register_measure

        register_list(TASKS, "scenarios:tasks")
        register_affected(tasks, rank=2)
        for measure in REVIEWED:
            register_measure(measure)
