from django.apps import AppConfig


class PagesConfig(AppConfig):
    name = "webapp.pages"
    label = "pages"

    def ready(self) -> None:
        from webapp.common.lists.registry import register_list
        from webapp.pages.administration_lists import AUDIT_LOG, USERS

        register_list(USERS, "pages:users")
        register_list(AUDIT_LOG, "pages:audit_log")
