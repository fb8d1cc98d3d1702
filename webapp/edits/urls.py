from __future__ import annotations

from django.urls import path

from webapp.edits import edit_views, forecast_views
from webapp.edits.beside import adoption_views

app_name = "edits"
urlpatterns = [
    path("", edit_views.listing, name="list"),
    path("beside/", adoption_views.beside, name="beside"),
    path("version/<int:pk>/adopt/", adoption_views.adopt_version, name="adopt_version"),
    path("task-revision/<int:pk>/adopt/", adoption_views.adopt_revision, name="adopt_revision"),
    path("tool/<int:pk>/", edit_views.start_tool, name="start_tool"),
    path("program/<int:pk>/", edit_views.start_program, name="start_program"),
    path("task/<int:pk>/", edit_views.start_task, name="start_task"),
    path("task-revision/<int:pk>/restore/", edit_views.restore_task, name="restore_task"),
    path("program/<int:pk>/restore/", edit_views.restore_program, name="restore_program"),
    path("tool/<int:pk>/repair/", edit_views.repair, name="repair"),
    path("own/", edit_views.own_draft, name="own_draft"),
    path("<int:pk>/", edit_views.edit, name="edit"),
    path("<int:pk>/keep/", edit_views.keep, name="keep"),
    path("<int:pk>/saving/", edit_views.saving, name="saving"),
    path("<int:pk>/drop/", edit_views.drop, name="drop"),
    path("<int:pk>/take-up/", edit_views.take_up, name="take_up"),
    path("<int:pk>/copy/", edit_views.copy, name="copy"),
    path("<int:pk>/renew/", edit_views.renew, name="renew"),
    path("<int:pk>/forecast/", forecast_views.forecast, name="forecast"),
    path("<int:pk>/forecast/work-out/", forecast_views.work_out, name="work_out"),
    path("<int:pk>/save/", edit_views.save, name="save"),
]
