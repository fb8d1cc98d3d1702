from django.apps import AppConfig


class ScenariosConfig(AppConfig):
    name = "webapp.scenarios"
    label = "scenarios"

    def ready(self) -> None:
        from webapp.common.lists.registry import register_list
        from webapp.environments.tool_graph.walk_sources import register_walks
        from webapp.scenarios.blueprints.walks import find_blueprint_walk, list_blueprint_tasks
        from webapp.scenarios.task_filters import TASKS
        from webapp.scenarios.tree_parts import REVIEWED, count_affected_tasks
        from webapp.taxonomy.changes.affected import register_affected
        from webapp.taxonomy.coverage import register_measure

        register_list(TASKS, "scenarios:tasks")
        register_affected(count_affected_tasks, rank=2)
        register_walks(list_blueprint_tasks, find_blueprint_walk)
        for measure in REVIEWED:
            register_measure(measure)
