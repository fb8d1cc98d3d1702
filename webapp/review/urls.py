from __future__ import annotations

from django.urls import path

from webapp.review import decision_views, item_views, queue_views, remark_views
from webapp.review.tools import verdict_views

app_name = "review"
urlpatterns = [
    path("", queue_views.list_queues, name="queues"),
    path("new/<slug:kind>/", queue_views.create_queue, name="new"),
    path("<int:pk>/", queue_views.show_queue, name="queue"),
    path("<int:pk>/edit/", queue_views.edit_queue, name="edit"),
    path("<int:pk>/open/", queue_views.set_queue_open, name="set_open"),
    path("<int:pk>/give/", queue_views.assign_items, name="give"),
    path("<int:pk>/refresh/", queue_views.refresh_queue, name="refresh"),
    path("<int:pk>/judge/", queue_views.start_judge, name="ask_judge"),
    path("<int:pk>/next/", item_views.pull_item, name="pull"),
    path("items/<int:pk>/", item_views.show_item, name="item"),
    path("items/<int:pk>/ahead/", item_views.prefetch_next_item, name="pull_ahead"),
    path("items/<int:pk>/hold/", item_views.hold_item, name="hold"),
    path("items/<int:pk>/assign/", item_views.assign_item, name="assign"),
    path("items/<int:pk>/decide/", decision_views.decide_item, name="decide_item"),
    path("held/<int:pk>/heartbeat/", item_views.renew_hold, name="heartbeat"),
    path("held/<int:pk>/skip/", item_views.skip_item, name="skip"),
    path("held/<int:pk>/unskip/", item_views.unskip_item, name="unskip"),
    path("held/<int:pk>/give-back/", item_views.give_back_item, name="give_back"),
    path("held/<int:pk>/send/", item_views.send_item, name="send"),
    path("versions/<int:pk>/", verdict_views.show_tool_verdicts, name="tool_verdicts"),
    path("history/", decision_views.list_history, name="history"),
    path("tasks/", decision_views.decide_in_bulk, name="bulk"),
    path("decisions/<int:pk>/undo/", decision_views.undo_decision, name="undo"),
    path("decisions/<int:pk>/gold/", decision_views.create_gold_item, name="make_gold"),
    path("groups/<uuid:group>/undo/", decision_views.undo_bulk_act, name="undo_group"),
    path("remarks/<int:pk>/resolve/", remark_views.resolve_remark, name="resolve_remark"),
    path("<slug:kind>/<int:pk>/panel/", decision_views.show_panel, name="panel"),
    path("<slug:kind>/<int:pk>/held/", decision_views.show_held_item, name="held"),
    path("<slug:kind>/<int:pk>/decide/", decision_views.decide_on_subject, name="decide"),
    path("<slug:kind>/<int:pk>/draft/", decision_views.save_draft, name="draft"),
    path("<slug:kind>/<int:pk>/remarks/", remark_views.show_remarks, name="remarks"),
]
