from django.urls import URLPattern, path

from webapp.pages import administration_views, health, home_views, search_views
from webapp.pages.statistics import difficulty_views, ecosystem_views, picture_views

app_name = "pages"
urlpatterns: list[URLPattern] = [
    path("", home_views.show_home, name="home"),
    path("running", home_views.show_running, name="running"),
    path("first-steps/", home_views.toggle_first_steps, name="first_steps"),
    path("import/", home_views.import_files, name="import"),
    path("ecosystem/", ecosystem_views.show_ecosystem, name="ecosystem"),
    path("ecosystem/part/", ecosystem_views.show_ecosystem_part, name="ecosystem-part"),
    path("ecosystem/themes/", ecosystem_views.show_theme_map, name="ecosystem-themes"),
    path("ecosystem/attempts/", picture_views.show_attempts, name="attempt-pictures"),
    path("ecosystem/difficulty/", difficulty_views.show_difficulty, name="difficulty-pictures"),
    path("ecosystem/calls/", picture_views.show_calls, name="call-pictures"),
    path("ecosystem/reviews/", picture_views.show_reviews, name="review-pictures"),
    path("account/users/", administration_views.show_users, name="users"),
    path("account/audit/", administration_views.show_audit_log, name="audit_log"),
    path("search/", search_views.show_results, name="search"),
    path("healthz", health.show_health, name="healthz"),
]
