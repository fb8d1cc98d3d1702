from __future__ import annotations

from django.urls import URLPattern, path

from webapp.runs import (
    views_datasets,
    views_demo,
    views_files,
    views_job,
    views_list,
    views_new,
    views_step,
    views_workers,
)

app_name = "runs"
OF_A_JOB: list[URLPattern] = [
    path("<slug:job>/", views_job.job, name="job"),
    path("<slug:job>/live/", views_job.job_live, name="job_live"),
    path("<slug:job>/curves.json", views_job.job_curves, name="job_curves"),
    path("<slug:job>/numbers/", views_job.job_numbers, name="job_numbers"),
    path("<slug:job>/files/<int:pk>/", views_job.checkpoint_file, name="checkpoint_file"),
    path("<slug:job>/pause/", views_job.pause, name="pause"),
    path("<slug:job>/resume/", views_job.resume, name="resume"),
    path("<slug:job>/cancel/", views_job.cancel, name="cancel"),
    path("<slug:job>/steps/", views_step.steps, name="steps"),
    path("<slug:job>/steps/<int:step>/", views_step.step, name="step"),
    path("<slug:job>/rollouts/<int:pk>/", views_step.rollout, name="rollout"),
]
"""Behind all addresses that begin with a word of their own."""
OF_DATASETS: list[URLPattern] = [
    path("datasets/", views_datasets.listed, name="datasets"),
    path("datasets/new/", views_datasets.new, name="dataset_new"),
    path("datasets/new/look/", views_datasets.looked, name="dataset_look"),
    path("datasets/new/environments/", views_datasets.environments, name="dataset_environments"),
    path("datasets/<slug:dataset>/", views_datasets.dataset, name="dataset"),
    path("datasets/<slug:dataset>/live/", views_datasets.live, name="dataset_live"),
    path("datasets/<slug:dataset>/rows/", views_datasets.rows, name="dataset_rows"),
    path("datasets/<slug:dataset>/<slug:side>.jsonl", views_datasets.download, name="dataset_file"),
    path("datasets/<slug:dataset>/archive/", views_datasets.archive, name="dataset_archive"),
    path("datasets/<slug:dataset>/restore/", views_datasets.restore, name="dataset_restore"),
    path("files/", views_files.files, name="files"),
    path("files/upload/", views_files.upload, name="file_upload"),
    path("files/<slug:file>/", views_files.file, name="file"),
    path("files/<slug:file>/dataset/", views_files.make, name="file_make"),
    path("files/<slug:file>/delete/", views_files.delete, name="file_delete"),
]

urlpatterns: list[URLPattern] = [
    path("", views_list.jobs, name="list"),
    path("new/", views_new.new, name="new"),
    path("new/preflight/", views_new.beside, name="preflight"),
    path("new/submit/", views_new.submit, name="submit"),
    path("demo/", views_demo.demo, name="demo"),
    path("install/", views_demo.install, name="install"),
    path("install/start/", views_demo.install_start, name="install_start"),
    path("install/stop/", views_demo.install_stop, name="install_stop"),
    path("workers/", views_workers.workers, name="workers"),
    path("of-trajectory/", views_step.of_trajectory, name="of_trajectory"),
    path("of-task/<int:task>/", views_step.of_task, name="of_task"),
    *OF_DATASETS,
    *OF_A_JOB,
]
