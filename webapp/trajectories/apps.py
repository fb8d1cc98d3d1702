from django.apps import AppConfig


class TrajectoriesConfig(AppConfig):
    name = "webapp.trajectories"
    label = "trajectories"

    def ready(self) -> None:
        from webapp.common.lists.registry import register_list
        from webapp.trajectories.trajectory_list import TRAJECTORIES

        register_list(TRAJECTORIES, "trajectories:list")
