from django.urls import path

from webapp.endpoints import views

app_name = "endpoints"
urlpatterns = [
    path("", views.listing, name="list"),
    path("new/", views.edit, name="new"),
    path("roles/", views.roles, name="roles"),
    path("<int:pk>/", views.edit, name="edit"),
    path("<int:pk>/try/", views.trial, name="try"),
    path("<int:pk>/structured/", views.structured, name="structured"),
    path("<int:pk>/models/", views.look, name="look"),
    path("<int:pk>/price/", views.price, name="price"),
    path("<int:pk>/delete/", views.remove, name="delete"),
]
