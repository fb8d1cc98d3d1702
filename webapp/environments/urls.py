from django.urls import URLPattern, path

from webapp.environments import assessment_views, views

app_name = "environments"
urlpatterns: list[URLPattern] = [
    path("", views.listing, name="list"),
    path("export", views.export_list, name="export_list"),
    path("of-node/<int:pk>/", views.of_node, name="of_node"),
    path("<int:pk>/", views.detail, name="detail"),
    path("cases/<int:pk>/", assessment_views.case, name="case"),
    path("assessments/<int:pk>/", assessment_views.assessment, name="assessment"),
    path("assessments/<int:pk>/rerun", assessment_views.start_rerun, name="start_rerun"),
    path("<int:pk>/export", views.export_one, name="export"),
    path("<int:pk>/diff", views.choose_diff, name="choose_diff"),
    path("<int:pk>/diff/<int:a>/<int:b>/", views.diff, name="diff"),
]
