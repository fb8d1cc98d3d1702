from django.urls import path

from webapp.scenarios import task_views
from webapp.scenarios.audits import audit_views
from webapp.scenarios.frames import frame_views
from webapp.scenarios.golden import golden_views
from webapp.scenarios.playground import playground_views

app_name = "scenarios"
urlpatterns = [
    path("", task_views.list_tasks, name="tasks"),
    path("export/", task_views.export_tasks, name="export"),
    path("environment/<int:pk>/", task_views.list_environment_tasks, name="of_environment"),
    path("scenario/<int:pk>/state/", task_views.show_initial_state, name="state"),
    path("check/<int:pk>/", task_views.show_check, name="check"),
    path("try/", playground_views.start_playground, name="try_new"),
    path("try/<int:pk>/", playground_views.show_start_page, name="try"),
    path("playground/<int:pk>/", playground_views.show_playground, name="playground"),
    path("playground/<int:pk>/run/", playground_views.run_tool_call, name="playground_run"),
    path("playground/<int:pk>/undo/", playground_views.undo_call, name="playground_undo"),
    path("playground/<int:pk>/redo/", playground_views.redo_call, name="playground_redo"),
    path("playground/<int:pk>/reset/", playground_views.reset_playground, name="playground_reset"),
    path("playground/<int:pk>/state/", playground_views.show_state, name="playground_state"),
    path("playground/<int:pk>/calls.json", playground_views.download_calls, name="playground_calls"),
    path("audit/", audit_views.start_filtered_audits, name="start_these_audits"),
    path("audit/preview/", audit_views.show_audit_preview, name="audit_preview"),
    path("frames/", frame_views.start_filtered_frames, name="start_these_frames"),
    path("frames/preview/", frame_views.show_frames_preview, name="frames_preview"),
    path("environment/<int:pk>/audit/", audit_views.start_environment_audit, name="start_environment_audit"),
    path("environment/<int:pk>/frames/", frame_views.switch_frames_on, name="start_environment_frames"),
    path("environment/<int:pk>/golden/", golden_views.start_environment_golden, name="start_environment_golden"),
    path("<int:pk>/", task_views.show_task, name="task"),
    path("<int:pk>/reference/", task_views.show_reference, name="reference"),
    path("<int:pk>/records/", task_views.show_records, name="records"),
    path("<int:pk>/audit/", audit_views.show_audit, name="audit"),
    path("<int:pk>/audit/start/", audit_views.start_audit, name="start_audit"),
    path("<int:pk>/frame/", frame_views.widen_frame, name="widen_frame"),
    path("<int:pk>/frame/start/", frame_views.switch_frame_on, name="start_frame"),
    path("<int:pk>/frame/off/", frame_views.switch_frame_off, name="drop_frame"),
    path("<int:pk>/frame/restore/", frame_views.restore_frame, name="restore_frame"),
    path("<int:pk>/golden/", golden_views.start_task_golden, name="make_golden"),
    path("<int:pk>/golden/state/", golden_views.show_golden_state, name="golden_state"),
    path("<int:pk>/golden/volatile/", golden_views.declare_volatile_place, name="declare_volatile"),
    path("<int:pk>/golden/volatile/remove/", golden_views.remove_volatile_place, name="remove_volatile"),
    path("<int:pk>/diff/<int:a>/<int:b>/", task_views.show_task_diff, name="task_diff"),
]
