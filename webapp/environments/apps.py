from django.apps import AppConfig


class EnvironmentsConfig(AppConfig):
    name = "webapp.environments"
    label = "environments"
