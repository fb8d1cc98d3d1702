from django.urls import URLPattern, path

from webapp.pages import health, views

app_name = "pages"
urlpatterns: list[URLPattern] = [
    path("", views.home, name="home"),
    path("running", views.running, name="running"),
    path("import/", views.import_files, name="import"),
    path("healthz", health.healthz, name="healthz"),
]
