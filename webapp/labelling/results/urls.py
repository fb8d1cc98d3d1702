"""URLs of agreement, below those of sessions."""

from django.urls import path

from webapp.labelling.results import agreement_views as views

app_name = "agreement"

urlpatterns = [
    path("<int:pk>/agreement/", views.agreement, name="page"),
    path("<int:pk>/agreement/live/", views.live, name="live"),
    path("<int:pk>/agreement/measure/", views.measure, name="measure"),
]
