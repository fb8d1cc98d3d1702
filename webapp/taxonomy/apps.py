from django.apps import AppConfig


class TaxonomyConfig(AppConfig):
    name = "webapp.taxonomy"
    label = "taxonomy"

    def ready(self) -> None:
        from webapp.common.lists.registry import register_list
        from webapp.taxonomy.changes import affected, hung
        from webapp.taxonomy.queries import THEMES

        register_list(THEMES, "taxonomy:themes")
        hung.register_hung(hung.THEMES)
        affected.register_affected(affected.find_affected_themes, rank=3)
        affected.register_affected(affected.find_affected_views, rank=6)
