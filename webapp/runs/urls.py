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
    path("<slug:job>/", job_views.job, name="job"),
    path("<slug:job>/live/", job_views.job_live, name="job_live"),
    path("<slug:job>/curves.json", job_views.job_curves, name="job_curves"),
    path("<slug:job>/curves.csv", curve_views.csv_file, name="curves_csv"),
    path("<slug:job>/curves.png", curve_views.png_file, name="curves_png"),
    path("<slug:job>/numbers/", job_views.job_numbers, name="job_numbers"),
    path("<slug:job>/files/<int:pk>/", job_views.checkpoint_file, name="checkpoint_file"),
    path("<slug:job>/pause/", job_views.pause, name="pause"),
    path("<slug:job>/resume/", job_views.resume, name="resume"),
    path("<slug:job>/cancel/", job_views.cancel, name="cancel"),
    path("<slug:job>/ignore-memory/", job_views.ignore_memory, name="ignore_memory"),
    path("<slug:job>/steps/", step_views.steps, name="steps"),
    path("<slug:job>/steps/<int:step>/", step_views.step, name="step"),
    path("<slug:job>/steps/<int:step>/group/", group_views.one_group, name="group"),
    path("<slug:job>/task/", group_views.course, name="task_course"),
    path("<slug:job>/rollouts/<int:pk>/", step_views.rollout, name="rollout"),
]
"""Behind all addresses that begin with a word of their own."""

urlpatterns: list[URLPattern] = [
    path("", job_list_views.jobs, name="list"),
    path("new/", new_job_views.new, name="new"),
    path("new/preflight/", new_job_views.beside, name="preflight"),
    path("new/submit/", new_job_views.submit, name="submit"),
    path("evaluations/", evaluation_views.evaluations, name="evaluations"),
    path("evaluations/compare/", evaluation_views.compared, name="compared"),
    path("evaluations/<slug:job>/", evaluation_views.evaluation, name="evaluation"),
    path("alerts/", alert_views.listing, name="alerts"),
    path("alerts/<int:pk>/mute/", alert_views.mute, name="mute_alert"),
    path("compare/", compare_views.compare, name="compare"),
    path("compare/curves.json", compare_views.curves, name="compare_curves"),
    path("demo/", demo_views.demo, name="demo"),
    path("install/", demo_views.install, name="install"),
    path("install/start/", demo_views.install_start, name="install_start"),
    path("install/stop/", demo_views.install_stop, name="install_stop"),
    path("of-trajectory/", step_views.of_trajectory, name="of_trajectory"),
    path("of-dataset/<slug:dataset>/", job_list_views.of_dataset, name="of_dataset"),
    path("of-task/<int:task>/", step_views.of_task, name="of_task"),
    *OF_A_JOB,
]
