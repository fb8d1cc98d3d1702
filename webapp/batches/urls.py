from django.urls import URLPattern, path

from webapp.batches.launch import clone_views, gap_views, launch_views, setting_views
from webapp.batches.pages import action_views, batch_views, provenance_views
from webapp.batches.yields import yield_views

app_name = "batches"
urlpatterns: list[URLPattern] = [
    path("", batch_views.list_batches, name="list"),
    path("new/", launch_views.show_launch_form, name="new"),
    path("new/for-label/<int:pk>/", gap_views.redirect_to_gap_form, name="for_node"),
    path("new/estimate/", launch_views.estimate_new_batch, name="new_estimate"),
    path("new/readiness/", launch_views.check_new_readiness, name="new_readiness"),
    path("new/matching/", launch_views.show_matching_rows, name="matching"),
    path("new/typed/", launch_views.render_typed_row, name="typed_row"),
    path("new/departures/", setting_views.show_departures, name="departures"),
    path("new/prompt/", setting_views.show_prompt_text, name="prompt_text"),
    path("made/", provenance_views.show_provenance, name="made"),
    path("limits/", launch_views.edit_launch_limits, name="limits"),
    path("selected/<slug:act>/", action_views.act_on_selection, name="bulk"),
    path("<int:pk>/clone/", clone_views.show_clone_form, name="clone"),
    path("<int:pk>/clone/estimate/", clone_views.estimate_clone, name="clone_estimate"),
    path("<int:pk>/clone/readiness/", clone_views.check_clone_readiness, name="clone_readiness"),
    path("<int:pk>/clone/differences/", clone_views.compare_clone_settings, name="clone_differences"),
    path("<int:pk>/", batch_views.show_batch, name="batch"),
    path("<int:pk>/yield/", yield_views.show_yield, name="yield"),
    path("<int:pk>/yield/read/", yield_views.start_yield_job, name="read_yield"),
    path("<int:pk>/live/", batch_views.show_live_part, name="live"),
    path("<int:pk>/start/", action_views.start_batch, name="start"),
    path("<int:pk>/pause/", action_views.pause_batch, name="pause"),
    path("<int:pk>/resume/", action_views.resume_batch, name="resume"),
    path("<int:pk>/cancel/", action_views.cancel_batch, name="cancel"),
    path("<int:pk>/retry/", action_views.retry_items, name="retry"),
    path("items/<int:pk>/", batch_views.show_item, name="item"),
    path("items/<int:pk>/live/", batch_views.show_item_live, name="item_live"),
    path("items/<int:pk>/keep/", action_views.keep_duplicate, name="keep"),
    path("items/<int:pk>/stages/<slug:stage>/", batch_views.show_stage_output, name="output"),
    path("calls/<int:pk>/", batch_views.show_call, name="call"),
    path("calls/<int:pk>/call.json", batch_views.download_call, name="call_file"),
]
