from django.apps import AppConfig


class BatchesConfig(AppConfig):
    name = "webapp.batches"
    label = "batches"
