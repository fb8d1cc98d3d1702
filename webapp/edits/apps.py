from django.apps import AppConfig


class EditsConfig(AppConfig):
    name = "webapp.edits"
    label = "edits"
