from django.urls import URLPattern, path

from webapp.taxonomy import views

app_name = "taxonomy"
urlpatterns: list[URLPattern] = [
    path("", views.index, name="index"),
    path("map/", views.treemap_page, name="map"),
    path("themes/", views.themes, name="themes"),
    path("themes/<int:pk>/", views.theme, name="theme"),
    path("<int:pk>/", views.node, name="node"),
    path("<int:pk>/children", views.children, name="children"),
]
