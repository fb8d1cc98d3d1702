from django.apps import AppConfig


class TaxonomyConfig(AppConfig):
    name = "webapp.taxonomy"
    label = "taxonomy"
