from django.urls import URLPattern, path

from webapp.jobs import views

app_name = "jobs"
urlpatterns: list[URLPattern] = [
    path("", views.listing, name="list"),
    path("<int:pk>/", views.detail, name="detail"),
    path("<int:pk>/live", views.live, name="live"),
    path("<int:pk>/cancel", views.cancel, name="cancel"),
    path("<int:pk>/retry", views.retry, name="retry"),
]
