from django.urls import URLPattern, path

from webapp.pages import administration_views, health, home_views, search_views
from webapp.pages.statistics import ecosystem_views, picture_views

app_name = "pages"
urlpatterns: list[URLPattern] = [
    path("", home_views.home, name="home"),
    path("running", home_views.running, name="running"),
    path("first-steps/", home_views.first_steps_shown, name="first_steps"),
    path("import/", home_views.import_files, name="import"),
    path("ecosystem/", ecosystem_views.page, name="ecosystem"),
    path("ecosystem/part/", ecosystem_views.part, name="ecosystem-part"),
    path("ecosystem/themes/", ecosystem_views.themes, name="ecosystem-themes"),
    path("ecosystem/attempts/", picture_views.attempts, name="attempt-pictures"),
    path("ecosystem/calls/", picture_views.calls, name="call-pictures"),
    path("ecosystem/reviews/", picture_views.reviews, name="review-pictures"),
    path("account/users/", administration_views.users, name="users"),
    path("account/audit/", administration_views.audit_log, name="audit_log"),
    path("search/", search_views.results, name="search"),
    path("healthz", health.healthz, name="healthz"),
]
