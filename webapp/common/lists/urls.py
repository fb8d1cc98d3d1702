from __future__ import annotations

from django.urls import path

from webapp.common.lists import list_views

app_name = "lists"
urlpatterns = [
    path("<slug:list_name>/views/", list_views.save_view, name="save"),
    path("<slug:list_name>/columns/", list_views.choose_columns, name="columns"),
    path("views/<int:pk>/delete/", list_views.delete_view, name="delete"),
]
