from django.urls import URLPattern, path

from webapp.pages import ecosystem_views, health, views

app_name = "pages"
urlpatterns: list[URLPattern] = [
    path("", views.home, name="home"),
    path("running", views.running, name="running"),
    path("import/", views.import_files, name="import"),
    path("ecosystem/", ecosystem_views.page, name="ecosystem"),
    path("ecosystem/part/", ecosystem_views.part, name="ecosystem-part"),
    path("ecosystem/themes/", ecosystem_views.themes, name="ecosystem-themes"),
    path("healthz", health.healthz, name="healthz"),
]
