from __future__ import annotations

from django.urls import URLPattern, path

from webapp.runs import job_list_views, job_views
from webapp.runs.alerts import alert_views
from webapp.runs.comparison import compare_views
from webapp.runs.curves import curve_views
from webapp.runs.evaluations import evaluation_views
from webapp.runs.launch import new_job_views
from webapp.runs.local import demo_views
from webapp.runs.rollouts import group_views, step_views

app_name = "runs"
OF_A_JOB: list[URLPattern] = [
    path("<slug:job>/", job_views.show_job, name="job"),
    path("<slug:job>/live/", job_views.show_live_job, name="job_live"),
    path("<slug:job>/curves.json", job_views.serve_job_curves, name="job_curves"),
    path("<slug:job>/curves.csv", curve_views.download_csv, name="curves_csv"),
    path("<slug:job>/curves.png", curve_views.download_png, name="curves_png"),
    path("<slug:job>/numbers/", job_views.show_job_numbers, name="job_numbers"),
    path("<slug:job>/files/<int:pk>/", job_views.download_checkpoint_file, name="checkpoint_file"),
    path("<slug:job>/pause/", job_views.pause_job, name="pause"),
    path("<slug:job>/resume/", job_views.resume_job, name="resume"),
    path("<slug:job>/cancel/", job_views.cancel_job, name="cancel"),
    path("<slug:job>/ignore-memory/", job_views.ignore_job_memory, name="ignore_memory"),
    path("<slug:job>/steps/", step_views.go_to_step, name="steps"),
    path("<slug:job>/steps/<int:step>/", step_views.show_step, name="step"),
    path("<slug:job>/steps/<int:step>/group/", group_views.show_group, name="group"),
    path("<slug:job>/task/", group_views.show_task_course, name="task_course"),
    path("<slug:job>/rollouts/<int:pk>/", step_views.replay_rollout, name="rollout"),
]
"""Behind all addresses that begin with a word of their own."""

urlpatterns: list[URLPattern] = [
    path("", job_list_views.list_jobs, name="list"),
    path("new/", new_job_views.show_new_job_form, name="new"),
    path("new/preflight/", new_job_views.show_preview, name="preflight"),
    path("new/submit/", new_job_views.submit_job, name="submit"),
    path("evaluations/", evaluation_views.list_evaluations, name="evaluations"),
    path("evaluations/compare/", evaluation_views.show_comparison, name="compared"),
    path("evaluations/<slug:job>/", evaluation_views.show_evaluation, name="evaluation"),
    path("alerts/", alert_views.list_alerts, name="alerts"),
    path("alerts/<int:pk>/mute/", alert_views.mute_alert, name="mute_alert"),
    path("compare/", compare_views.compare_jobs, name="compare"),
    path("compare/curves.json", compare_views.serve_curves, name="compare_curves"),
    path("demo/", demo_views.start_demo, name="demo"),
    path("install/", demo_views.show_installation, name="install"),
    path("install/start/", demo_views.start_installation, name="install_start"),
    path("install/stop/", demo_views.stop_installation, name="install_stop"),
    path("of-trajectory/", step_views.show_trajectory_origin, name="of_trajectory"),
    path("of-dataset/<slug:dataset>/", job_list_views.list_dataset_jobs, name="of_dataset"),
    path("of-task/<int:task>/", step_views.list_task_rollouts, name="of_task"),
    *OF_A_JOB,
]
