from django.apps import AppConfig


class LabellingConfig(AppConfig):
    name = "webapp.labelling"
    label = "labelling"

    def ready(self) -> None:
        from webapp.labelling.session_lists import SESSIONS
        from webapp.lists.registry import register_list

        register_list(SESSIONS, "labelling:list")
