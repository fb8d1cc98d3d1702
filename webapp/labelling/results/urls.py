"""URLs of agreement, below those of sessions."""

from django.urls import path

from webapp.labelling.results import agreement_views as views

app_name = "agreement"

urlpatterns = [
    path("<int:pk>/agreement/", views.show_agreement, name="page"),
    path("<int:pk>/agreement/live/", views.show_measuring_progress, name="live"),
    path("<int:pk>/agreement/measure/", views.measure_agreement, name="measure"),
]
