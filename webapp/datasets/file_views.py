"""Views of uploaded files: the list with the form, one of them with its report, a dataset of it."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from synthesis.errors import InputError
from webapp.accounts.access import access, may, takes_bytes
from webapp.datasets import dataset_lists, file_uploads, queries, services
from webapp.datasets.forms import SplitForm
from webapp.datasets.models import FileState, StoredFile
from webapp.datasets.preview import MEANINGS, SplitSides, look_at_file
from webapp.lists.bulk_acts import bulk_page
from webapp.lists.list_context import asked_list
from webapp.lists.list_filters import list_query
from webapp.paging import keyset
from webapp.rest.api_examples import api_call
from webapp.templatetags.show import plain

WHOLE = {"unit": "environment", "test_share": "0", "seed": "0"}


class UploadForm(forms.Form):
    use_required_attribute = False
    kind = forms.ChoiceField(
        label="Its rows are",
        choices=[("", "what its first line says"), ("tasks", "tasks"), ("trajectories", "trajectories")],
        required=False,
    )
    leave_out = forms.BooleanField(
        label="Leave out lines that cannot be used",
        help_text="The rest is kept, and the file's page lists what is missing.",
        required=False,
    )
    file = forms.FileField(
        label="File",
        help_text="JSON Lines",
        allow_empty_file=True,
        error_messages={"required": "Choose a file: JSON Lines, one JSON object a line."},
        widget=forms.FileInput(attrs={"accept": ".jsonl,application/jsonl,application/json"}),
    )


@access("read")
@require_safe
@never_cache
def files(request: HttpRequest) -> HttpResponse:
    """The list, and the form for those who may upload."""
    return _list(request, UploadForm())


@takes_bytes(settings.UPLOAD_LIMIT_MIB << 20)
@access("train")
@require_POST
@never_cache
def upload(request: HttpRequest) -> HttpResponse:
    """Check and keep a file; or say by line what is wrong with it."""
    form = UploadForm(request.POST, request.FILES)
    if not form.is_valid():
        return _list(request, form)
    try:
        chosen = form.cleaned_data
        row = file_uploads.store_file(request.user, chosen["file"], chosen["kind"], chosen["leave_out"])
    except file_uploads.BadFile as error:
        form.add_error("file", str(error))
        return _list(request, form, error)
    return redirect("datasets:file", row.public_id)


def _list(request: HttpRequest, form: UploadForm, refused: file_uploads.BadFile | None = None) -> HttpResponse:
    asked = list_query(dataset_lists.FILES, dataset_lists.file_filters(request.user), request.GET)
    page = keyset(request, asked.narrow(queries.files().select_related("created_by")), asked.order)
    context: dict[str, Any] = {"form": form, "refused": refused, "page": page, "most": file_uploads.limits()}
    context |= {"asked": asked, "list": asked_list(request, asked, page), "copy_as_label": "Upload by API"}
    context["bulk"] = dataset_lists.FILE_ACTS if may(request.user, "train") else None
    context["copy_as"] = api_call(request, "POST", "api:upload_file", files={"file": "data.jsonl"})
    return render(request, "datasets/files/list.html", context, status=422 if form.errors else 200)


@access("read")
@require_safe
@never_cache
def file(request: HttpRequest, file: str) -> HttpResponse:
    return _page(request, _found(file), SplitForm(WHOLE))


@access("train")
@require_POST
def make(request: HttpRequest, file: str) -> HttpResponse:
    """Freeze the file, split as asked."""
    row, form = _found(file), SplitForm(request.POST)
    if form.is_valid():
        try:
            looked = look_at_file(row, form.split())
            if looked and looked[0].empty:
                raise InputError(_ways_out(*looked))
            made = services.uploaded(
                request.user, row, form.split(), form.cleaned_data["name"], form.cleaned_data["licence"]
            )
        except InputError as error:
            form.add_error(None, str(error))
        else:
            return redirect("datasets:dataset", made.public_id)
    return _page(request, row, form, 422)


@access("train")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def bulk(request: HttpRequest, act: str) -> HttpResponse:
    """What an act on the selected files would be, and the act."""
    return bulk_page(request, dataset_lists.FILE_ACTS, act)


@access("train")
@require_POST
def delete(request: HttpRequest, file: str) -> HttpResponse:
    row = _found(file)
    try:
        file_uploads.delete_file(request.user, row)
    except InputError as error:
        messages.error(request, str(error))
        return redirect("datasets:file", row.public_id)
    messages.success(request, f"{row.filename} is deleted.")
    return redirect("datasets:files")


def _ways_out(sides: SplitSides, near: list[SplitSides]) -> str:
    told = [
        f"by {way.split.unit} with seed {way.split.seed} ({way.train_rows} to learn from, {way.test_rows} held out)"
        if way.split.test_share
        else "a share of 0, which holds nothing out"
        for way in near
    ]
    return f"With this split there is {sides.empty}. Take another: {'; or '.join(told)}."


def _found(ident: str) -> StoredFile:
    return get_object_or_404(queries.files().select_related("created_by"), public_id=ident)


def _page(request: HttpRequest, row: StoredFile, form: SplitForm, status: int = 200) -> HttpResponse:
    form.fields["name"].widget.attrs["placeholder"] = plain(row.filename)
    context: dict[str, Any] = {
        "file": row,
        "method": "reinforcement" if row.kind == "tasks" else "supervised",
        "form": form,
        "meanings": MEANINGS,
        "usable": row.state != FileState.ERROR and not (row.leave_out and row.state == FileState.UPLOADED),
        "made": list(row.datasets.order_by("-pk").only("public_id", "name", "state", "archived")[:20]),
        "copy_as": api_call(request, "POST", "api:create_dataset", body={"file": row.public_id, "split": {}}),
    }
    return render(request, "datasets/files/page.html", context, status=status)
