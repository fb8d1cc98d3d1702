from django.apps import AppConfig


class TaxonomyConfig(AppConfig):
    name = "webapp.taxonomy"
    label = "taxonomy"

    def ready(self) -> None:
        from webapp.lists.registry import register_list
        from webapp.taxonomy.queries import THEMES

        register_list(THEMES, "taxonomy:themes")
