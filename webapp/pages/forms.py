from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.template.defaultfilters import filesizeformat
from django.urls import reverse_lazy
from django.utils.functional import lazy
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from synthesis.formats import mcp
from synthesis.skeleton.documented_tools import MOST_TOOLS
from synthesis.tool_documents.document_reader import MOST_BYTES
from webapp.common.templatetags.show import number
from webapp.jobs.uploads import is_atif

format_html_lazy = lazy(format_html, SafeString)


JSON = ".json,.jsonl,application/json"
PACKED = ".jsonl,.json,.gz,application/json,application/gzip"
ENVIRONMENTS = mark_safe(
    "JSON: a list of records or an object keyed by <code>env_id</code>, as EnvScaler writes "
    "<code>env_metadata.json</code>. Tools may be objects or JSON in a string."
)
SCENARIOS = mark_safe(
    "JSON: a list of records with <code>env_id</code>, <code>init_config</code>, <code>task</code> and "
    "<code>checklist_with_func</code>. Each becomes a scenario and a task."
)
TRAJECTORIES = (
    "JSON or JSON Lines, plain or gzipped: recorded runs that name their environment and task. An export of this site "
    "brings both along; of other files import those first, as a run whose task is not here is listed as failed, with "
    "the reason. Or trajectories in ATIF 1.0 to 1.8 (Harbor): they come in without an environment, to be read and "
    "searched."
)
DOCUMENT_FILES = ".json,.yaml,.yml,.md,.markdown,.gz,application/json,text/markdown"
DOCUMENTS = format_html_lazy(
    "At most {} MiB: OpenAPI 3.0 or 3.1, Swagger 2 (JSON or YAML), an MCP tool list, a function list as models are "
    "given it, or Markdown with a heading such as <code>## `book_table(day, guests)`</code> for each tool. It "
    "becomes one theme, from which a batch grows an environment with these tools, of which there may be {}.",
    MOST_BYTES >> 20,
    MOST_TOOLS,
)
DOCUMENT_KINDS = (("tools", "Tools"), ("requirements", "Product requirements"))
KINDS = (
    "Product requirements are Markdown with English headings on the background, on workflows and on interfaces: "
    "environments are planned so that every workflow can be carried out."
)
SERVERS = format_html_lazy(
    "JSON Lines or JSON, plain or gzipped, at most {} MiB unpacked: one server each with <code>name</code>, "
    "<code>tools</code> and its labels. Each becomes a theme with its tools and hangs in the "
    '<a href="{}">taxonomy</a> by its labels.',
    number(mcp.MAX_FILE_BYTES >> 20),
    reverse_lazy("taxonomy:index"),
)


FRAMES = (
    "A task whose reference is known then pays only for what that reference changes; anything else makes its reward 0. "
    "Without a reference there is no frame: recorded runs that earn everything bring one."
)
RUN_FRAMES = (
    "A run that earns everything becomes the reference of a task that has none, and the task then pays only for what "
    "that run changes; anything else makes its reward 0."
)


ELSEWHERE = "This file holds trajectories in ATIF (Harbor), not {}. Upload it under Trajectories to read and search it."


class UploadField(forms.FileField):
    """A file within the installation's limit, refused with both sizes if it is larger.

    With `holds` it is refused if it contains trajectories instead.
    """

    widget = forms.FileInput

    def __init__(self, *, accept: str = JSON, holds: str = "", **kwargs: Any) -> None:
        self.holds = holds
        super().__init__(widget=forms.FileInput(attrs={"accept": accept}), **kwargs)

    def clean(self, data: Any, initial: Any = None) -> Any:
        file = super().clean(data, initial)
        limit = settings.UPLOAD_LIMIT_MIB * 1024 * 1024
        if isinstance(file, UploadedFile) and (file.size or 0) > limit:
            sizes = f"{filesizeformat(file.size or 0)}; this installation takes {filesizeformat(limit)} at most"
            raise forms.ValidationError(f"The file has {sizes} (ENVARIUM_UPLOAD_LIMIT_MIB).")
        if self.holds and isinstance(file, UploadedFile) and is_atif(file):
            raise forms.ValidationError(ELSEWHERE.format(self.holds))
        return file


class EnvironmentsForm(forms.Form):
    environments = UploadField(help_text=ENVIRONMENTS, holds="environments")
    scenarios = UploadField(label="Scenarios (optional)", required=False, help_text=SCENARIOS, holds="scenarios")
    frames = forms.BooleanField(label="Give tasks a frame", required=False, help_text=FRAMES)


class TrajectoriesForm(forms.Form):
    trajectories = UploadField(accept=PACKED, help_text=TRAJECTORIES)
    frames = forms.BooleanField(label="Give their tasks a frame", required=False, help_text=RUN_FRAMES)


class DocumentForm(forms.Form):
    kind = forms.ChoiceField(label="What it describes", choices=DOCUMENT_KINDS, initial="tools", help_text=KINDS)
    document = UploadField(accept=DOCUMENT_FILES, help_text=DOCUMENTS, holds="tool documents")
    name = forms.CharField(
        label="Name (optional)",
        required=False,
        max_length=120,
        help_text="Replaces the title of the document.",
    )
    category = forms.CharField(
        label="Category (optional)", required=False, max_length=120,
        help_text="The label of the first level in the taxonomy under which the theme is kept.",
    )  # fmt: skip


class ServersForm(forms.Form):
    servers = UploadField(accept=PACKED, help_text=SERVERS, holds="MCP servers")
