from django.urls import path

from webapp.endpoints import endpoint_views

app_name = "endpoints"
urlpatterns = [
    path("", endpoint_views.listing, name="list"),
    path("new/", endpoint_views.edit, name="new"),
    path("roles/", endpoint_views.roles, name="roles"),
    path("sampling/", endpoint_views.sampling, name="sampling"),
    path("<int:pk>/all-parameters/", endpoint_views.all_parameters, name="all_parameters"),
    path("<int:pk>/", endpoint_views.edit, name="edit"),
    path("<int:pk>/try/", endpoint_views.trial, name="try"),
    path("<int:pk>/structured/", endpoint_views.structured, name="structured"),
    path("<int:pk>/models/", endpoint_views.look, name="look"),
    path("<int:pk>/price/", endpoint_views.price, name="price"),
    path("<int:pk>/delete/", endpoint_views.remove, name="delete"),
]
