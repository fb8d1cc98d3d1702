from django.urls import URLPattern, path

from webapp.environments import assessment_views, environment_views
from webapp.environments.checkers import checker_views
from webapp.environments.evidence import version_run_views

app_name = "environments"
urlpatterns: list[URLPattern] = [
    path("", environment_views.listing, name="list"),
    path("export", environment_views.export_list, name="export_list"),
    path("of-node/<int:pk>/", environment_views.of_node, name="of_node"),
    path("<int:pk>/", environment_views.detail, name="detail"),
    path("cases/<int:pk>/", assessment_views.case, name="case"),
    path("assessments/<int:pk>/", assessment_views.assessment, name="assessment"),
    path("assessments/<int:pk>/rerun", assessment_views.start_rerun, name="start_rerun"),
    path("assessments/<int:pk>/repairs/<int:number>/", version_run_views.repair, name="repair"),
    path("versions/<int:pk>/cases/", version_run_views.version_run, name="version_run"),
    path("versions/<int:pk>/cases/run", version_run_views.start_version_run, name="start_version_run"),
    path("checkers/", checker_views.listing, name="checkers"),
    path("checkers/<int:pk>/", checker_views.measure, name="checker"),
    path("<int:pk>/export", environment_views.export_one, name="export"),
    path("<int:pk>/diff", environment_views.choose_diff, name="choose_diff"),
    path("<int:pk>/diff/<int:a>/<int:b>/", environment_views.diff, name="diff"),
]
