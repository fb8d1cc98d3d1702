from django.urls import URLPattern, path

from webapp.taxonomy import folding_views, views

app_name = "taxonomy"
urlpatterns: list[URLPattern] = [
    path("", views.index, name="index"),
    path("map/", views.treemap_page, name="map"),
    path("themes/", views.themes, name="themes"),
    path("themes/new/", folding_views.new_theme, name="new_theme"),
    path("themes/sources/", folding_views.sources, name="sources"),
    path("themes/sources/<int:pk>/", folding_views.source, name="source"),
    path("themes/duplicates/", folding_views.duplicates, name="duplicates"),
    path("themes/duplicates/live/", folding_views.live, name="duplicates_live"),
    path("themes/duplicates/group/", folding_views.group, name="group_themes"),
    path("themes/decisions/<int:pk>/undo/", folding_views.undo, name="undo_decision"),
    path("themes/<int:pk>/", views.theme, name="theme"),
    path("themes/<int:pk>/keep-apart/", folding_views.keep_apart, name="keep_apart"),
    path("themes/<int:pk>/choose/", folding_views.choose, name="choose_theme"),
    path("<int:pk>/", views.node, name="node"),
    path("<int:pk>/children", views.children, name="children"),
]
