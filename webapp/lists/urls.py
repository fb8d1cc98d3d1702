from __future__ import annotations

from django.urls import path

from webapp.lists import list_views

app_name = "lists"
urlpatterns = [
    path("<slug:list_name>/views/", list_views.save, name="save"),
    path("<slug:list_name>/columns/", list_views.columns, name="columns"),
    path("views/<int:pk>/delete/", list_views.delete, name="delete"),
]
