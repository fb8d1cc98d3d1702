from django.urls import URLPattern, path

from webapp.batches.launch import clone_views, gaps, launch_views, preset_choice, prompt_trials
from webapp.batches.pages import action_views, batch_views, provenance_views
from webapp.batches.yields import yield_views

app_name = "batches"
urlpatterns: list[URLPattern] = [
    path("", batch_views.batches, name="list"),
    path("new/", launch_views.new, name="new"),
    path("new/for-label/<int:pk>/", gaps.for_node, name="for_node"),
    path("new/estimate/", launch_views.new_estimate, name="new_estimate"),
    path("new/readiness/", launch_views.new_readiness, name="new_readiness"),
    path("new/matching/", launch_views.matching, name="matching"),
    path("new/typed/", launch_views.typed_row, name="typed_row"),
    path("new/departures/", preset_choice.departures, name="departures"),
    path("new/prompt/", prompt_trials.prompt_text, name="prompt_text"),
    path("made/", provenance_views.made, name="made"),
    path("limits/", launch_views.limits, name="limits"),
    path("selected/<slug:act>/", action_views.bulk, name="bulk"),
    path("<int:pk>/clone/", clone_views.clone, name="clone"),
    path("<int:pk>/clone/estimate/", clone_views.clone_estimate, name="clone_estimate"),
    path("<int:pk>/clone/readiness/", clone_views.clone_readiness, name="clone_readiness"),
    path("<int:pk>/clone/differences/", clone_views.clone_differences, name="clone_differences"),
    path("<int:pk>/", batch_views.batch, name="batch"),
    path("<int:pk>/yield/", yield_views.batch_yield, name="yield"),
    path("<int:pk>/yield/read/", yield_views.read_yield, name="read_yield"),
    path("<int:pk>/live/", batch_views.live, name="live"),
    path("<int:pk>/start/", action_views.start, name="start"),
    path("<int:pk>/pause/", action_views.pause, name="pause"),
    path("<int:pk>/resume/", action_views.resume, name="resume"),
    path("<int:pk>/cancel/", action_views.cancel, name="cancel"),
    path("<int:pk>/retry/", action_views.retry, name="retry"),
    path("items/<int:pk>/", batch_views.item, name="item"),
    path("items/<int:pk>/live/", batch_views.item_live, name="item_live"),
    path("items/<int:pk>/keep/", action_views.keep, name="keep"),
    path("items/<int:pk>/stages/<slug:stage>/", batch_views.output, name="output"),
    path("calls/<int:pk>/", batch_views.call, name="call"),
    path("calls/<int:pk>/call.json", batch_views.call_file, name="call_file"),
]
