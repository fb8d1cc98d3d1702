from __future__ import annotations

from django.urls import path

from webapp.review import decision_views, item_views, queue_views, remark_views
from webapp.review.tools import verdict_views

app_name = "review"
urlpatterns = [
    path("", queue_views.listing, name="queues"),
    path("new/<slug:kind>/", queue_views.new, name="new"),
    path("<int:pk>/", queue_views.queue, name="queue"),
    path("<int:pk>/edit/", queue_views.edit, name="edit"),
    path("<int:pk>/open/", queue_views.set_open, name="set_open"),
    path("<int:pk>/give/", queue_views.give, name="give"),
    path("<int:pk>/refresh/", queue_views.refresh, name="refresh"),
    path("<int:pk>/judge/", queue_views.ask_judge, name="ask_judge"),
    path("<int:pk>/next/", item_views.pull, name="pull"),
    path("items/<int:pk>/", item_views.item, name="item"),
    path("items/<int:pk>/ahead/", item_views.pull_ahead, name="pull_ahead"),
    path("items/<int:pk>/hold/", item_views.hold, name="hold"),
    path("items/<int:pk>/assign/", item_views.assign, name="assign"),
    path("items/<int:pk>/decide/", decision_views.decide_item, name="decide_item"),
    path("held/<int:pk>/heartbeat/", item_views.heartbeat, name="heartbeat"),
    path("held/<int:pk>/skip/", item_views.skip, name="skip"),
    path("held/<int:pk>/unskip/", item_views.unskip, name="unskip"),
    path("held/<int:pk>/give-back/", item_views.give_back, name="give_back"),
    path("held/<int:pk>/send/", item_views.send, name="send"),
    path("versions/<int:pk>/", verdict_views.of_version, name="tool_verdicts"),
    path("history/", decision_views.history, name="history"),
    path("tasks/", decision_views.bulk, name="bulk"),
    path("decisions/<int:pk>/undo/", decision_views.undo, name="undo"),
    path("decisions/<int:pk>/gold/", decision_views.make_gold, name="make_gold"),
    path("groups/<uuid:group>/undo/", decision_views.undo_group, name="undo_group"),
    path("remarks/<int:pk>/resolve/", remark_views.resolve, name="resolve_remark"),
    path("<slug:kind>/<int:pk>/panel/", decision_views.panel, name="panel"),
    path("<slug:kind>/<int:pk>/held/", decision_views.held, name="held"),
    path("<slug:kind>/<int:pk>/decide/", decision_views.decide, name="decide"),
    path("<slug:kind>/<int:pk>/draft/", decision_views.draft, name="draft"),
    path("<slug:kind>/<int:pk>/remarks/", remark_views.remarks, name="remarks"),
]
