from django.urls import URLPattern, path

from webapp.environments import assessment_views, environment_views
from webapp.environments.checkers import checker_views
from webapp.environments.evidence import version_run_views
from webapp.environments.tool_graph import tool_graph_views

app_name = "environments"
urlpatterns: list[URLPattern] = [
    path("", environment_views.list_environments, name="list"),
    path("export", environment_views.export_environments, name="export_list"),
    path("of-node/<int:pk>/", environment_views.list_node_environments, name="of_node"),
    path("<int:pk>/", environment_views.show_environment, name="detail"),
    path("cases/<int:pk>/", assessment_views.show_case, name="case"),
    path("assessments/<int:pk>/", assessment_views.show_assessment, name="assessment"),
    path("assessments/<int:pk>/rerun", assessment_views.start_rerun, name="start_rerun"),
    path("assessments/<int:pk>/repairs/<int:number>/", version_run_views.show_repair, name="repair"),
    path("versions/<int:pk>/cases/", version_run_views.show_version_run, name="version_run"),
    path("versions/<int:pk>/cases/run", version_run_views.start_version_run, name="start_version_run"),
    path("versions/<int:pk>/edges/add", tool_graph_views.add_edge, name="add_edge"),
    path("edges/<int:pk>/remove", tool_graph_views.remove_edge, name="remove_edge"),
    path("edges/<int:pk>/restore", tool_graph_views.restore_edge, name="restore_edge"),
    path("checkers/", checker_views.list_measures, name="checkers"),
    path("checkers/<int:pk>/", checker_views.show_measure, name="checker"),
    path("<int:pk>/export", environment_views.export_environment, name="export"),
    path("<int:pk>/diff", environment_views.redirect_to_diff, name="choose_diff"),
    path("<int:pk>/diff/<int:a>/<int:b>/", environment_views.show_diff, name="diff"),
]
