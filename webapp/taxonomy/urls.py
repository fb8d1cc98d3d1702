from django.urls import URLPattern, path

from webapp.taxonomy import coverage_views, same_name_views, tree_views
from webapp.taxonomy.changes import change_views
from webapp.taxonomy.near_duplicates import near_duplicate_views, neighbour_views

app_name = "taxonomy"
urlpatterns: list[URLPattern] = [
    path("", tree_views.show_tree, name="index"),
    path("coverage/", coverage_views.show_coverage, name="coverage"),
    path("names/", same_name_views.list_same_names, name="same_names"),
    path("map/", tree_views.show_treemap, name="map"),
    path("themes/", tree_views.list_themes, name="themes"),
    path("themes/new/", near_duplicate_views.create_theme, name="new_theme"),
    path("themes/sources/", near_duplicate_views.list_sources, name="sources"),
    path("themes/sources/<int:pk>/", near_duplicate_views.show_source, name="source"),
    path("themes/duplicates/", near_duplicate_views.list_duplicates, name="duplicates"),
    path("themes/duplicates/live/", near_duplicate_views.show_grouping_progress, name="duplicates_live"),
    path("themes/duplicates/group/", near_duplicate_views.group_themes, name="group_themes"),
    path("themes/decisions/<int:pk>/undo/", near_duplicate_views.undo_decision, name="undo_decision"),
    path("themes/<int:pk>/", tree_views.show_theme, name="theme"),
    path("themes/<int:pk>/keep-apart/", near_duplicate_views.keep_theme_apart, name="keep_apart"),
    path("themes/<int:pk>/choose/", near_duplicate_views.choose_theme, name="choose_theme"),
    path("themes/<int:pk>/neighbours/", neighbour_views.list_neighbours, name="neighbours"),
    path("themes/<int:pk>/fold-into/", neighbour_views.fold_theme, name="fold_into"),
    path("themes/<int:pk>/place/", neighbour_views.place_theme, name="place_theme"),
    path("changes/", change_views.list_changes, name="history"),
    path("changes/<int:pk>/", change_views.show_change, name="tree_change"),
    path("changes/<int:pk>/undo/", change_views.undo_change, name="undo_change"),
    path("<int:pk>/change/", change_views.choose_change, name="choose_change"),
    path("<int:pk>/change/<slug:kind>/", change_views.change_label, name="change"),
    path("<int:pk>/", tree_views.show_node, name="node"),
    path("<int:pk>/children", tree_views.list_children, name="children"),
]
