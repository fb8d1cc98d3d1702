"""Tool documents on the site: by page, API and command they become themes whose tools reach the prompts whole."""

from __future__ import annotations

import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.test import Client

from synthesis.skeleton.plan import format_theme
from synthesis.stages import ItemSpec
from synthesis.themes.inversion import needs_inversion
from synthesis.tool_documents.document_reader import read_document
from tests.fixtures import pages_seed
from tests.fixtures.api import program
from tests.fixtures.markup import flat
from tests.tool_documents.test_documents import SHOP
from tests.tool_documents.test_requirements import LIBRARY
from webapp.batches.engine.stage_runs import EndedStage
from webapp.batches.engine.theme_source import record_theme_result
from webapp.batches.models import BatchItem, StageState
from webapp.jobs.context import JobContext
from webapp.jobs.models import Job, JobState
from webapp.jobs.registry import KINDS
from webapp.taxonomy.importer import import_document
from webapp.taxonomy.jobs import link_document_theme
from webapp.taxonomy.models import Origin, Theme
from webapp.taxonomy.theme_services import build_theme_draft

pytestmark = pytest.mark.django_db
EVIL = pages_seed.EVIL


def run_job(job: Job) -> Any:
    Job.objects.filter(pk=job.pk).update(state=JobState.RUNNING, attempt=1)
    return KINDS["import_tool_documents"].handler(JobContext.of(Job.objects.get(pk=job.pk)))


def test_an_uploaded_document_becomes_a_theme_with_its_tools() -> None:
    annotator = pages_seed.person("annotator")
    page = Client()
    page.force_login(annotator)
    content = json.dumps(SHOP | {"info": {"title": EVIL}}).encode()
    sent = {
        "what": "document",
        "kind": "tools",
        "document": SimpleUploadedFile("shop.json", content),
        "category": "Books",
    }
    answer = page.post("/import/", sent)
    job = Job.objects.get()
    assert (answer.status_code, answer.headers["Location"]) == (302, f"/jobs/{job.pk}/")
    counts = {"created": 1, "unchanged": 0, "updated": 0}
    report = run_job(job)
    theme = Theme.objects.get()
    assert report == {"themes": counts, "tools": 3, "failed": [], "theme": theme.pk}
    job.result = report
    assert link_document_theme(job)[0].url == f"/taxonomy/themes/{theme.pk}/"
    assert (theme.origin, theme.node.path, theme.tool_count) == (Origin.DOCUMENTS, "books", 3)
    shown = flat(page.get(f"/taxonomy/themes/{theme.pk}/"))
    assert EVIL not in shown
    assert "change_order" in shown

    draft = build_theme_draft(theme)
    assert draft.origin == "documents"
    prompt = format_theme(draft)
    assert '"$ref":"#/$defs/Part"' in prompt, "what a tool takes reaches the prompts"
    assert "A list of objects with name, parts" in prompt


def test_a_refused_form_opens_at_what_was_refused() -> None:
    page = Client()
    page.force_login(pages_seed.person("operator"))
    empty = SimpleUploadedFile("desk.md", b"")
    answer = page.post("/import/", {"what": "document", "kind": "requirements", "document": empty})
    assert answer.status_code == 422
    field = re.search(r"<input[^>]* name=\"document\"[^>]*>", answer.content.decode())
    assert field is not None
    assert "autofocus" in field[0]


def test_the_api_takes_a_document_and_says_what_is_wrong_with_one() -> None:
    writer = program(pages_seed.person("operator"), "read", "synthesise")

    def send(content: bytes, **fields: str) -> Any:
        sent = {"document": SimpleUploadedFile("desk.md", content), **fields}
        return writer.client.post("/api/v1/imports/tool-documents", sent, headers=writer.headers)

    answer = send(b"## `book(day)`\n", name="Desk\0")
    assert answer.status_code == 202, answer.json()
    run_job(Job.objects.get())
    assert Theme.objects.get().name == "Desk\u2400"
    assert send(b"").status_code == 422
    assert send(b"no tools\n").status_code == 202
    with pytest.raises(Exception, match=r"^desk\.md: no heading names a tool.* Nothing was imported\.$"):
        run_job(Job.objects.latest("pk"))


def test_product_requirements_come_in_by_page_api_and_command(tmp_path: Path) -> None:
    operator = pages_seed.person("operator")
    page = Client()
    page.force_login(operator)
    content = LIBRARY.replace("Take a tool back", EVIL).encode()
    sent = {"what": "document", "kind": "requirements", "document": SimpleUploadedFile("desk.md", content)}
    assert page.post("/import/", sent).status_code == 302
    run_job(Job.objects.get())
    theme = Theme.objects.get()
    assert (theme.origin, theme.source, theme.tool_count) == (Origin.REQUIREMENTS, "requirements", 3)
    shown = flat(page.get(f"/taxonomy/themes/{theme.pk}/"))
    assert EVIL not in shown
    assert "The member asks for a tool by its name." in shown
    assert build_theme_draft(theme).workflows[0].name == "Lend a tool"

    writer = program(operator, "read", "synthesise")
    sent = {"document": SimpleUploadedFile("bad.md", b"# Desk\n\n## Workflows\n\n- Lend\n"), "kind": "requirements"}
    answer = writer.client.post("/api/v1/imports/tool-documents", sent, headers=writer.headers)
    assert answer.status_code == 202, answer.json()
    with pytest.raises(Exception, match=r"^bad\.md, line 1: no heading speaks of background .* and interfaces"):
        run_job(Job.objects.latest("pk"))
    read = writer.client.get(f"/api/v1/themes/{theme.pk}", headers=writer.headers).json()
    assert read["workflows"][0]["steps"][0] == "The member asks for a tool by its name."
    listed = writer.client.get("/api/v1/themes?origin=requirements", headers=writer.headers).json()
    assert [line["id"] for line in listed["data"]] == [theme.pk]

    file = tmp_path / "desk.md"
    file.write_bytes(content)
    told = StringIO()
    call_command("import_tool_documents", str(file), "--kind", "requirements", stderr=told)
    assert "1 unchanged" in told.getvalue()


def test_what_a_batch_calls_a_set_of_tools_is_kept_with_it() -> None:
    tools = {"tools": [{"name": "find_pots"}], "tasks": ["Find the ferns."]}
    record = read_document(json.dumps(tools).encode(), "functions.json")
    import_document(record, "mine")
    before = build_theme_draft(Theme.objects.get())
    named = before.model_copy(update={"name": "Plant swap", "description": f"Neighbours lend pots. {EVIL}"})
    item = BatchItem(spec=ItemSpec(theme=before, key=before.key).model_dump(mode="json"), batch_id=7)
    record_theme_result(item, EndedStage("discover", StageState.FAILED), {"author": "m"})
    assert build_theme_draft(Theme.objects.get()) == before, "a reply that cannot be used changes nothing"
    for state in (StageState.KEPT, StageState.KEPT):
        record_theme_result(item, EndedStage("discover", state, named), {"author": "m"})
    row = Theme.objects.get()
    assert row.provenance == {"batch": 7, "author": "m", "imported": {"name": "functions", "description": ""}}
    after = build_theme_draft(row)
    assert (after.key, after.name, after.description) == (before.key, "Plant swap", named.description)
    assert not needs_inversion(after)
    assert import_document(record, "mine")["themes"]["unchanged"] == 1, "the document is still the same"
    assert Theme.objects.get().name == "Plant swap"
    import_document(record.model_copy(update={"tasks": ()}), "mine")
    row = Theme.objects.get()
    assert (row.name, row.provenance) == ("functions", {}), "another document of that name replaces all of it"


def test_documents_of_one_title_are_one_only_if_they_share_a_tool() -> None:
    def bring(*names: str) -> dict[str, int]:
        document = {"title": "OpenAPI definition", "tools": [{"name": name} for name in names]}
        counts: dict[str, int] = import_document(read_document(json.dumps(document).encode(), "a.json"), "s")["themes"]
        return {name: count for name, count in counts.items() if count}

    told = [bring("book"), bring("book", "cancel"), bring("feed"), bring("feed"), bring("book", "cancel")]
    assert told == [{"created": 1}, {"updated": 1}, {"created": 1}, {"unchanged": 1}, {"unchanged": 1}]


def test_more_tools_than_an_environment_can_have_are_kept_and_said(tmp_path: Path) -> None:
    tools = [{"name": f"tool_{number}"} for number in range(101)]
    (tmp_path / "many.json").write_text(json.dumps({"tools": tools}))
    told = StringIO()
    call_command("import_tool_documents", str(tmp_path / "many.json"), stderr=told)
    theme = Theme.objects.get()
    page = Client()
    page.force_login(pages_seed.person("annotator"))
    for words in (told.getvalue(), flat(page.get(f"/taxonomy/themes/{theme.pk}/"))):
        assert "It names 101 tools; one environment can have 100." in words
    assert theme.tools.count() == 101


def test_the_command_keeps_what_it_can_read_and_names_the_rest(tmp_path: Path) -> None:
    good, bad = tmp_path / "shop.json", tmp_path / "bad.yaml"
    good.write_text(json.dumps(SHOP))
    bad.write_text("openapi: 3.0.0\npaths: {/a: {get: {parameters: [{name: x, in: moon}]}}}\n")
    out, told = StringIO(), StringIO()
    call_command("import_tool_documents", str(good), str(bad), "--json", stdout=out, stderr=told)
    said = json.loads(out.getvalue())
    assert (said["themes"]["created"], said["tools"]) == (1, 3)
    assert said["failed"][0]["place"] == str(bad)
    assert "paths./a.get.parameters[0].in: 'moon'" in said["failed"][0]["reason"]
    call_command("import_tool_documents", str(good), "--json", stdout=out, stderr=told)
    assert "1 unchanged" in told.getvalue()
    with pytest.raises(CommandError, match="Nothing was imported"):
        call_command("import_tool_documents", str(bad), stderr=StringIO())
