from __future__ import annotations

from django.urls import path

from webapp.labelling import adjudication_views, desk_views, session_views
from webapp.labelling.outcome import outcome_views

app_name = "labelling"
urlpatterns = [
    path("", session_views.listing, name="list"),
    path("new/<slug:kind>/", session_views.new, name="new"),
    path("<int:pk>/", session_views.session, name="session"),
    path("<int:pk>/close/", session_views.close, name="close"),
    path("<int:pk>/again/", session_views.again, name="again"),
    path("<int:pk>/skipped/", session_views.take_up_skipped, name="skipped"),
    path("<int:pk>/ask-model/", session_views.ask_model, name="propose"),
    path("<int:pk>/guideline/", session_views.guideline, name="guideline"),
    path("<int:pk>/next/", desk_views.pull, name="pull"),
    path("held/<int:pk>/", desk_views.desk, name="desk"),
    path("held/<int:pk>/submit/", desk_views.submit, name="submit"),
    path("held/<int:pk>/fill/", desk_views.fill, name="fill"),
    path("held/<int:pk>/draft/", desk_views.draft, name="draft"),
    path("held/<int:pk>/heartbeat/", desk_views.heartbeat, name="heartbeat"),
    path("held/<int:pk>/skip/", desk_views.skip, name="skip"),
    path("held/<int:pk>/leave/", desk_views.leave, name="leave"),
    path("labels/<int:pk>/undo/", desk_views.undo, name="undo"),
    path("<int:pk>/adjudication/", adjudication_views.adjudicate, name="adjudication"),
    path("<int:pk>/result/", outcome_views.outcome, name="outcome"),
    path("<int:pk>/carry-out/", outcome_views.carry_out, name="carry_out"),
    path("<int:pk>/settle-agreed/", adjudication_views.settle_agreed, name="settle_agreed"),
    path("items/<int:pk>/", adjudication_views.item, name="item"),
    path("items/<int:pk>/take/", adjudication_views.take, name="take"),
    path("items/<int:pk>/settle/", adjudication_views.settle, name="settle"),
    path("items/<int:pk>/unsettle/", adjudication_views.unsettle, name="unsettle"),
    path("items/<int:pk>/discuss/", adjudication_views.discuss, name="discuss"),
    path("discussions/<int:pk>/post/", adjudication_views.post, name="post"),
]
