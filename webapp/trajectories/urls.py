from django.urls import URLPattern, path

from webapp.trajectories import trajectory_views
from webapp.trajectories.export import export_views as training
from webapp.trajectories.forks import fork_views as forks
from webapp.trajectories.replay import replay_views
from webapp.trajectories.rollouts import rollout_views as rollouts
from webapp.trajectories.side_by_side import compare_views

app_name = "trajectories"
urlpatterns: list[URLPattern] = [
    path("", trajectory_views.index, name="list"),
    path("export.jsonl", trajectory_views.export_all, name="export_list"),
    path("training/", training.training, name="training"),
    path("training/download/", training.download, name="training_download"),
    path("training/start/", training.start, name="training_start"),
    path("training/exports/", training.exports, name="training_exports"),
    path("training/exports/<int:pk>.zip", training.fetch, name="training_file"),
    path("compare/", compare_views.compared, name="compare"),
    path("of-task/<int:task_pk>/", trajectory_views.of_task, name="of_task"),
    path("run/<int:task_pk>/", rollouts.run, name="run"),
    path("run/<int:task_pk>/start/", rollouts.start, name="start"),
    path("rollouts/<int:pk>/", rollouts.rollout, name="rollout"),
    path("rollouts/<int:pk>/live/", rollouts.live, name="rollout_live"),
    path("rollouts/<int:pk>/cancel/", rollouts.cancel, name="rollout_cancel"),
    path("rollouts/<int:pk>/retry/", rollouts.retry, name="rollout_retry"),
    path("forks/<int:pk>/", forks.by_hand, name="by_hand"),
    path("forks/<int:pk>/checks/", forks.by_hand_checks, name="by_hand_checks"),
    path("forks/<int:pk>/finish/", forks.by_hand_finish, name="by_hand_finish"),
    path("<int:pk>/fork/", forks.choose, name="fork"),
    path("<int:pk>/fork/by-hand/", forks.begin, name="fork_begin"),
    path("<int:pk>/fork/reference/", forks.fork_reference, name="fork_reference"),
    path("<int:pk>/pair.jsonl", forks.pair, name="pair"),
    path("<int:pk>/", replay_views.detail, name="detail"),
    path("<int:pk>/news/", replay_views.news, name="news"),
    path("<int:pk>/steps/<int:index>/", replay_views.step, name="step"),
    path("<int:pk>/steps/<int:index>/branch/", replay_views.branch, name="branch"),
    path("<int:pk>/search/", replay_views.search, name="search"),
    path("<int:pk>/matrix/", replay_views.matrix, name="matrix"),
    path("<int:pk>/checks/<int:position>/", replay_views.check, name="check"),
    path("<int:pk>/check-again/", replay_views.check_again, name="check_again"),
    path("<int:pk>/export.jsonl", replay_views.export, name="export"),
]
