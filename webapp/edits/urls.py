from __future__ import annotations

from django.urls import path

from webapp.edits import edit_views, forecast_views
from webapp.edits.beside import adoption_views

app_name = "edits"
urlpatterns = [
    path("", edit_views.list_edits, name="list"),
    path("beside/", adoption_views.list_stored_beside, name="beside"),
    path("version/<int:pk>/adopt/", adoption_views.adopt_version, name="adopt_version"),
    path("task-revision/<int:pk>/adopt/", adoption_views.adopt_revision, name="adopt_revision"),
    path("tool/<int:pk>/", edit_views.start_tool_edit, name="start_tool"),
    path("program/<int:pk>/", edit_views.start_program_edit, name="start_program"),
    path("task/<int:pk>/", edit_views.start_task_edit, name="start_task"),
    path("task-revision/<int:pk>/restore/", edit_views.restore_task, name="restore_task"),
    path("program/<int:pk>/restore/", edit_views.restore_program, name="restore_program"),
    path("tool/<int:pk>/repair/", edit_views.start_tool_repair, name="repair"),
    path("own/", edit_views.show_own_draft, name="own_draft"),
    path("<int:pk>/", edit_views.show_edit, name="edit"),
    path("<int:pk>/keep/", edit_views.keep_draft, name="keep"),
    path("<int:pk>/saving/", edit_views.show_saving, name="saving"),
    path("<int:pk>/drop/", edit_views.drop_draft, name="drop"),
    path("<int:pk>/take-up/", edit_views.reopen_draft, name="take_up"),
    path("<int:pk>/copy/", edit_views.copy_draft, name="copy"),
    path("<int:pk>/renew/", edit_views.renew_draft, name="renew"),
    path("<int:pk>/forecast/", forecast_views.show_forecast, name="forecast"),
    path("<int:pk>/forecast/work-out/", forecast_views.start_forecast, name="work_out"),
    path("<int:pk>/save/", edit_views.save_draft, name="save"),
]
