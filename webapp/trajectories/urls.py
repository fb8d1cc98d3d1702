from django.urls import URLPattern, path

from webapp.trajectories import trajectory_views
from webapp.trajectories.export import export_views as training
from webapp.trajectories.forks import fork_views as forks
from webapp.trajectories.replay import replay_views
from webapp.trajectories.rollouts import rollout_views as rollouts
from webapp.trajectories.side_by_side import compare_views

app_name = "trajectories"
urlpatterns: list[URLPattern] = [
    path("", trajectory_views.list_trajectories, name="list"),
    path("export.jsonl", trajectory_views.export_trajectories, name="export_list"),
    path("training/", training.show_training_form, name="training"),
    path("training/download/", training.download_archive, name="training_download"),
    path("training/start/", training.start_export, name="training_start"),
    path("training/exports/", training.show_exports, name="training_exports"),
    path("training/exports/<int:pk>.zip", training.fetch_export, name="training_file"),
    path("compare/", compare_views.show_comparison, name="compare"),
    path("of-task/<int:task_pk>/", trajectory_views.list_task_attempts, name="of_task"),
    path("run/<int:task_pk>/", rollouts.show_run_form, name="run"),
    path("run/<int:task_pk>/start/", rollouts.start_rollout, name="start"),
    path("rollouts/<int:pk>/", rollouts.show_rollout, name="rollout"),
    path("rollouts/<int:pk>/live/", rollouts.show_live_part, name="rollout_live"),
    path("rollouts/<int:pk>/cancel/", rollouts.cancel_rollout, name="rollout_cancel"),
    path("rollouts/<int:pk>/retry/", rollouts.retry_rollout, name="rollout_retry"),
    path("forks/<int:pk>/", forks.show_fork, name="by_hand"),
    path("forks/<int:pk>/checks/", forks.show_fork_checks, name="by_hand_checks"),
    path("forks/<int:pk>/finish/", forks.finish_fork, name="by_hand_finish"),
    path("<int:pk>/fork/", forks.show_fork_choices, name="fork"),
    path("<int:pk>/fork/by-hand/", forks.begin_fork, name="fork_begin"),
    path("<int:pk>/fork/reference/", forks.make_fork_reference, name="fork_reference"),
    path("<int:pk>/pair.jsonl", forks.download_pair, name="pair"),
    path("<int:pk>/", replay_views.show_trajectory, name="detail"),
    path("<int:pk>/news/", replay_views.send_news, name="news"),
    path("<int:pk>/steps/<int:index>/", replay_views.show_step, name="step"),
    path("<int:pk>/steps/<int:index>/branch/", replay_views.show_branch, name="branch"),
    path("<int:pk>/search/", replay_views.show_hits, name="search"),
    path("<int:pk>/matrix/", replay_views.show_matrix, name="matrix"),
    path("<int:pk>/checks/<int:position>/", replay_views.show_check, name="check"),
    path("<int:pk>/check-again/", replay_views.start_matrix_job, name="check_again"),
    path("<int:pk>/export.jsonl", replay_views.export_trajectory, name="export"),
]
