from __future__ import annotations

from django.urls import path

from webapp.labelling import adjudication_views, desk_views, session_views
from webapp.labelling.outcome import outcome_views

app_name = "labelling"
urlpatterns = [
    path("", session_views.list_sessions, name="list"),
    path("new/<slug:kind>/", session_views.create_session, name="new"),
    path("<int:pk>/", session_views.show_session, name="session"),
    path("<int:pk>/close/", session_views.close_round, name="close"),
    path("<int:pk>/again/", session_views.ask_items_again, name="again"),
    path("<int:pk>/skipped/", session_views.unskip_session_items, name="skipped"),
    path("<int:pk>/ask-model/", session_views.ask_model, name="propose"),
    path("<int:pk>/guideline/", session_views.edit_guideline, name="guideline"),
    path("<int:pk>/next/", desk_views.pull_next_item, name="pull"),
    path("held/<int:pk>/", desk_views.show_desk, name="desk"),
    path("held/<int:pk>/submit/", desk_views.submit_label, name="submit"),
    path("held/<int:pk>/fill/", desk_views.update_draft, name="fill"),
    path("held/<int:pk>/draft/", desk_views.autosave_draft, name="draft"),
    path("held/<int:pk>/heartbeat/", desk_views.extend_reservation, name="heartbeat"),
    path("held/<int:pk>/skip/", desk_views.skip_item, name="skip"),
    path("held/<int:pk>/leave/", desk_views.leave_desk, name="leave"),
    path("labels/<int:pk>/undo/", desk_views.undo_label, name="undo"),
    path("<int:pk>/adjudication/", adjudication_views.list_disputes, name="adjudication"),
    path("<int:pk>/result/", outcome_views.show_outcome, name="outcome"),
    path("<int:pk>/carry-out/", outcome_views.apply_outcome, name="carry_out"),
    path("<int:pk>/settle-agreed/", adjudication_views.settle_agreed_items, name="settle_agreed"),
    path("items/<int:pk>/", adjudication_views.show_item, name="item"),
    path("items/<int:pk>/take/", adjudication_views.settle_with_label, name="take"),
    path("items/<int:pk>/settle/", adjudication_views.settle_item, name="settle"),
    path("items/<int:pk>/unsettle/", adjudication_views.unsettle_item, name="unsettle"),
    path("items/<int:pk>/discuss/", adjudication_views.open_discussion, name="discuss"),
    path("discussions/<int:pk>/post/", adjudication_views.add_post, name="post"),
]
