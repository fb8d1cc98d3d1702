from django.urls import path

from webapp.webhooks import webhook_views

app_name = "webhooks"
urlpatterns = [
    path("", webhook_views.listing, name="list"),
    path("<int:pk>/", webhook_views.detail, name="detail"),
    path("<int:pk>/test/", webhook_views.test, name="test"),
    path("<int:pk>/switch/", webhook_views.switch, name="switch"),
    path("<int:pk>/delete/", webhook_views.delete, name="delete"),
]
