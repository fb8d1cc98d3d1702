from django.urls import URLPattern, path

from webapp.taxonomy import coverage_views, same_name_views, tree_views
from webapp.taxonomy.changes import change_views
from webapp.taxonomy.near_duplicates import near_duplicate_views, neighbour_views

app_name = "taxonomy"
urlpatterns: list[URLPattern] = [
    path("", tree_views.index, name="index"),
    path("coverage/", coverage_views.coverage_page, name="coverage"),
    path("names/", same_name_views.list_same_names, name="same_names"),
    path("map/", tree_views.treemap_page, name="map"),
    path("themes/", tree_views.themes, name="themes"),
    path("themes/new/", near_duplicate_views.new_theme, name="new_theme"),
    path("themes/sources/", near_duplicate_views.sources, name="sources"),
    path("themes/sources/<int:pk>/", near_duplicate_views.source, name="source"),
    path("themes/duplicates/", near_duplicate_views.duplicates, name="duplicates"),
    path("themes/duplicates/live/", near_duplicate_views.live, name="duplicates_live"),
    path("themes/duplicates/group/", near_duplicate_views.group, name="group_themes"),
    path("themes/decisions/<int:pk>/undo/", near_duplicate_views.undo, name="undo_decision"),
    path("themes/<int:pk>/", tree_views.theme, name="theme"),
    path("themes/<int:pk>/keep-apart/", near_duplicate_views.keep_apart, name="keep_apart"),
    path("themes/<int:pk>/choose/", near_duplicate_views.choose, name="choose_theme"),
    path("themes/<int:pk>/neighbours/", neighbour_views.neighbours, name="neighbours"),
    path("themes/<int:pk>/fold-into/", neighbour_views.fold_into, name="fold_into"),
    path("themes/<int:pk>/place/", neighbour_views.place_theme, name="place_theme"),
    path("changes/", change_views.history, name="history"),
    path("changes/<int:pk>/", change_views.detail, name="tree_change"),
    path("changes/<int:pk>/undo/", change_views.undo_change, name="undo_change"),
    path("<int:pk>/change/", change_views.choose, name="choose_change"),
    path("<int:pk>/change/<slug:kind>/", change_views.change, name="change"),
    path("<int:pk>/", tree_views.node, name="node"),
    path("<int:pk>/children", tree_views.children, name="children"),
]
