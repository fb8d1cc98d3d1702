from django.urls import path

from webapp.endpoints import endpoint_views

app_name = "endpoints"
urlpatterns = [
    path("", endpoint_views.list_endpoints, name="list"),
    path("new/", endpoint_views.edit_endpoint, name="new"),
    path("roles/", endpoint_views.save_roles, name="roles"),
    path("sampling/", endpoint_views.save_sampling, name="sampling"),
    path("<int:pk>/all-parameters/", endpoint_views.restore_parameters, name="all_parameters"),
    path("<int:pk>/", endpoint_views.edit_endpoint, name="edit"),
    path("<int:pk>/try/", endpoint_views.try_model, name="try"),
    path("<int:pk>/structured/", endpoint_views.save_structured_form, name="structured"),
    path("<int:pk>/models/", endpoint_views.refresh_models, name="look"),
    path("<int:pk>/price/", endpoint_views.save_price, name="price"),
    path("<int:pk>/delete/", endpoint_views.delete_endpoint, name="delete"),
]
