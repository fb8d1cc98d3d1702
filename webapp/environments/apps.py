from django.apps import AppConfig


class EnvironmentsConfig(AppConfig):
    name = "webapp.environments"
    label = "environments"

    def ready(self) -> None:
        from webapp.common.lists.registry import register_list
        from webapp.environments.queries import ENVIRONMENTS
        from webapp.environments.totals import HUNG
        from webapp.environments.tree_parts import find_affected_environments
        from webapp.taxonomy.changes.affected import register_affected
        from webapp.taxonomy.changes.hung import register_hung

        register_list(ENVIRONMENTS, "environments:list")
        register_hung(HUNG)
        register_affected(find_affected_environments, rank=1)
