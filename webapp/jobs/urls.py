from django.urls import URLPattern, path

from webapp.jobs import job_views

app_name = "jobs"
urlpatterns: list[URLPattern] = [
    path("", job_views.listing, name="list"),
    path("selected/<slug:act>/", job_views.bulk, name="bulk"),
    path("<int:pk>/", job_views.detail, name="detail"),
    path("<int:pk>/live", job_views.live, name="live"),
    path("<int:pk>/cancel", job_views.cancel, name="cancel"),
    path("<int:pk>/retry", job_views.retry, name="retry"),
]
