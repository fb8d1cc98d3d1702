from django.apps import AppConfig


class EnvironmentsConfig(AppConfig):
    name = "webapp.environments"
    label = "environments"

    def ready(self) -> None:
        from webapp.environments.queries import ENVIRONMENTS
        from webapp.lists.registry import register_list

        register_list(ENVIRONMENTS, "environments:list")
