from __future__ import annotations

from django.apps import AppConfig


class ListsConfig(AppConfig):
    name = "webapp.common.lists"
    label = "lists"
