from django.urls import URLPattern, path

from webapp.jobs import job_views

app_name = "jobs"
urlpatterns: list[URLPattern] = [
    path("", job_views.list_jobs, name="list"),
    path("selected/<slug:act>/", job_views.act_on_selected_jobs, name="bulk"),
    path("<int:pk>/", job_views.show_job, name="detail"),
    path("<int:pk>/live", job_views.show_live_job, name="live"),
    path("<int:pk>/cancel", job_views.cancel_job, name="cancel"),
    path("<int:pk>/retry", job_views.retry_job, name="retry"),
]
