from django.apps import AppConfig


class EventsConfig(AppConfig):
    name = "webapp.common.events"
    label = "events"
