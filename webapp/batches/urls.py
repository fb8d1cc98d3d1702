from django.urls import URLPattern, path

from webapp.batches import views_act, views_launch, views_made, views_show

app_name = "batches"
urlpatterns: list[URLPattern] = [
    path("", views_launch.batches, name="list"),
    path("new/", views_launch.new, name="new"),
    path("new/estimate/", views_launch.new_estimate, name="new_estimate"),
    path("new/matching/", views_launch.matching, name="matching"),
    path("new/typed/", views_launch.typed_row, name="typed_row"),
    path("made/", views_made.made, name="made"),
    path("limits/", views_launch.limits, name="limits"),
    path("<int:pk>/clone/", views_launch.clone, name="clone"),
    path("<int:pk>/clone/estimate/", views_launch.clone_estimate, name="clone_estimate"),
    path("<int:pk>/clone/differences/", views_launch.clone_differences, name="clone_differences"),
    path("<int:pk>/", views_show.batch, name="batch"),
    path("<int:pk>/live/", views_show.live, name="live"),
    path("<int:pk>/start/", views_act.start, name="start"),
    path("<int:pk>/pause/", views_act.pause, name="pause"),
    path("<int:pk>/resume/", views_act.resume, name="resume"),
    path("<int:pk>/cancel/", views_act.cancel, name="cancel"),
    path("<int:pk>/retry/", views_act.retry, name="retry"),
    path("items/<int:pk>/", views_show.item, name="item"),
    path("items/<int:pk>/live/", views_show.item_live, name="item_live"),
    path("items/<int:pk>/keep/", views_act.keep, name="keep"),
    path("items/<int:pk>/stages/<slug:stage>/", views_show.output, name="output"),
    path("calls/<int:pk>/", views_show.call, name="call"),
    path("calls/<int:pk>/call.json", views_show.call_file, name="call_file"),
]
