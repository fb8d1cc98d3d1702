from django.urls import path

from webapp.scenarios import task_views
from webapp.scenarios.audits import audit_views
from webapp.scenarios.frames import frame_views
from webapp.scenarios.golden import golden_views
from webapp.scenarios.playground import playground_views

app_name = "scenarios"
urlpatterns = [
    path("", task_views.tasks, name="tasks"),
    path("export/", task_views.export, name="export"),
    path("environment/<int:pk>/", task_views.of_environment, name="of_environment"),
    path("scenario/<int:pk>/state/", task_views.state, name="state"),
    path("check/<int:pk>/", task_views.check, name="check"),
    path("try/", playground_views.try_new, name="try_new"),
    path("try/<int:pk>/", playground_views.try_version, name="try"),
    path("playground/<int:pk>/", playground_views.playground, name="playground"),
    path("playground/<int:pk>/run/", playground_views.run, name="playground_run"),
    path("playground/<int:pk>/undo/", playground_views.undo, name="playground_undo"),
    path("playground/<int:pk>/redo/", playground_views.redo, name="playground_redo"),
    path("playground/<int:pk>/reset/", playground_views.reset, name="playground_reset"),
    path("playground/<int:pk>/state/", playground_views.state, name="playground_state"),
    path("playground/<int:pk>/calls.json", playground_views.calls, name="playground_calls"),
    path("audit/", audit_views.start_these, name="start_these_audits"),
    path("audit/preview/", audit_views.preview, name="audit_preview"),
    path("frames/", frame_views.start_these, name="start_these_frames"),
    path("frames/preview/", frame_views.preview, name="frames_preview"),
    path("environment/<int:pk>/audit/", audit_views.start_environment, name="start_environment_audit"),
    path("environment/<int:pk>/frames/", frame_views.switch_on_all, name="start_environment_frames"),
    path("environment/<int:pk>/golden/", golden_views.make_all, name="start_environment_golden"),
    path("<int:pk>/", task_views.task, name="task"),
    path("<int:pk>/reference/", task_views.reference, name="reference"),
    path("<int:pk>/records/", task_views.records, name="records"),
    path("<int:pk>/audit/", audit_views.audit, name="audit"),
    path("<int:pk>/audit/start/", audit_views.start_audit, name="start_audit"),
    path("<int:pk>/frame/", frame_views.widen, name="widen_frame"),
    path("<int:pk>/frame/start/", frame_views.switch_on, name="start_frame"),
    path("<int:pk>/frame/off/", frame_views.switch_off, name="drop_frame"),
    path("<int:pk>/frame/restore/", frame_views.restore, name="restore_frame"),
    path("<int:pk>/golden/", golden_views.make, name="make_golden"),
    path("<int:pk>/golden/state/", golden_views.state, name="golden_state"),
    path("<int:pk>/golden/volatile/", golden_views.declare, name="declare_volatile"),
    path("<int:pk>/golden/volatile/remove/", golden_views.remove, name="remove_volatile"),
    path("<int:pk>/diff/<int:a>/<int:b>/", task_views.task_diff, name="task_diff"),
]
