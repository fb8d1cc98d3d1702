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
from webapp.accounts.access import allow_file_bytes, has_scope, require_scope
from webapp.common.lists.bulk_acts import process_bulk_act
from webapp.common.lists.list_context import build_filtered_list
from webapp.common.lists.list_filters import parse_list_query
from webapp.common.paging import paginate_by_keyset
from webapp.common.rest.api_examples import build_api_call
from webapp.common.templatetags.show import plain
from webapp.datasets import dataset_lists, file_uploads, queries, services
from webapp.datasets.forms import SplitForm
from webapp.datasets.models import FileState, StoredFile
from webapp.datasets.preview import MEANINGS, require_file_rows

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


@require_scope("read")
@require_safe
@never_cache
def list_files(request: HttpRequest) -> HttpResponse:
    """Show the list, and the form for those who may upload."""
    return _render_file_list(request, UploadForm())


@allow_file_bytes(settings.UPLOAD_LIMIT_MIB << 20)
@require_scope("train")
@require_POST
@never_cache
def upload_file(request: HttpRequest) -> HttpResponse:
    """Check and store a file, or show its problems by line."""
    form = UploadForm(request.POST, request.FILES)
    if not form.is_valid():
        return _render_file_list(request, form)
    try:
        cleaned = form.cleaned_data
        row = file_uploads.store_file(request.user, cleaned["file"], cleaned["kind"], cleaned["leave_out"])
    except file_uploads.BadFile as error:
        form.add_error("file", str(error))
        return _render_file_list(request, form, error)
    return redirect("datasets:file", row.public_id)


def _render_file_list(
    request: HttpRequest, form: UploadForm, refused: file_uploads.BadFile | None = None
) -> HttpResponse:
    asked = parse_list_query(dataset_lists.FILES, dataset_lists.file_filters(request.user), request.GET)
    page = paginate_by_keyset(
        request, asked.narrow(queries.list_uploaded_files().select_related("created_by")), asked.order
    )
    context: dict[str, Any] = {"form": form, "refused": refused, "page": page, "most": file_uploads.get_upload_limits()}
    context |= {"asked": asked, "list": build_filtered_list(request, asked, page), "copy_as_label": "Upload by API"}
    context["bulk"] = dataset_lists.FILE_ACTS if has_scope(request.user, "train") else None
    context["copy_as"] = build_api_call(request, "POST", "api:upload_file", files={"file": "data.jsonl"})
    return render(request, "datasets/files/list.html", context, status=422 if form.errors else 200)


@require_scope("read")
@require_safe
@never_cache
def show_file(request: HttpRequest, file: str) -> HttpResponse:
    return _render_file_page(request, _get_file_or_404(file), SplitForm(WHOLE))


@require_scope("train")
@require_POST
def create_file_dataset(request: HttpRequest, file: str) -> HttpResponse:
    """Freeze the file, split as asked."""
    row, form = _get_file_or_404(file), SplitForm(request.POST)
    if form.is_valid():
        try:
            require_file_rows(row, form.split())
            dataset = services.create_file_dataset(
                request.user, row, form.split(), form.cleaned_data["name"], form.cleaned_data["licence"]
            )
        except InputError as error:
            form.add_error(None, str(error))
        else:
            return redirect("datasets:dataset", dataset.public_id)
    return _render_file_page(request, row, form, 422)


@require_scope("train")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def run_bulk_act(request: HttpRequest, act: str) -> HttpResponse:
    """Preview an action on the selected files, or apply it."""
    return process_bulk_act(request, dataset_lists.FILE_ACTS, act)


@require_scope("train")
@require_POST
def delete_file(request: HttpRequest, file: str) -> HttpResponse:
    row = _get_file_or_404(file)
    try:
        file_uploads.delete_file(request.user, row)
    except InputError as error:
        messages.error(request, str(error))
        return redirect("datasets:file", row.public_id)
    messages.success(request, f"{row.filename} is deleted.")
    return redirect("datasets:files")


def _get_file_or_404(ident: str) -> StoredFile:
    return get_object_or_404(queries.list_uploaded_files().select_related("created_by"), public_id=ident)


def _render_file_page(request: HttpRequest, row: StoredFile, form: SplitForm, status: int = 200) -> HttpResponse:
    form.fields["name"].widget.attrs["placeholder"] = plain(row.filename)
    context: dict[str, Any] = {
        "file": row,
        "method": "reinforcement" if row.kind == "tasks" else "supervised",
        "form": form,
        "meanings": MEANINGS,
        "usable": row.state != FileState.ERROR and not (row.leave_out and row.state == FileState.UPLOADED),
        "made": list(row.datasets.order_by("-pk").only("public_id", "name", "state", "archived")[:20]),
        "copy_as": build_api_call(request, "POST", "api:create_dataset", body={"file": row.public_id, "split": {}}),
    }
    return render(request, "datasets/files/page.html", context, status=status)
