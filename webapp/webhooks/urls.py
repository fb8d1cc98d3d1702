from django.urls import path

from webapp.webhooks import webhook_views

app_name = "webhooks"
urlpatterns = [
    path("", webhook_views.list_webhooks, name="list"),
    path("<int:pk>/", webhook_views.show_webhook, name="detail"),
    path("<int:pk>/test/", webhook_views.send_test_message, name="test"),
    path("<int:pk>/switch/", webhook_views.switch_webhook, name="switch"),
    path("<int:pk>/delete/", webhook_views.delete_webhook, name="delete"),
]
