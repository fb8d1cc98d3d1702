"""The tree of labels and its themes over the API."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from ninja import File, Form, Query, Router, Status
from ninja.files import UploadedFile

from synthesis.tool_documents.document_reader import DocumentKind
from webapp.common.rest.auth import get_acting_user, require_scope
from webapp.common.rest.idempotency import idempotent
from webapp.common.rest.paging import cursor_page
from webapp.common.rest.problems import build_unknown_id_problem
from webapp.common.rest.types import Id, PageOf
from webapp.jobs.models import Job
from webapp.jobs.schemas import JobOut
from webapp.jobs.uploads import require_no_atif
from webapp.taxonomy import queries
from webapp.taxonomy.former import find_present_node
from webapp.taxonomy.models import Theme
from webapp.taxonomy.near_duplicates.schemas import ThemeIn
from webapp.taxonomy.schemas import NodeOut, NodeQuery, ThemeLine, ThemeOut, ThemeQuery
from webapp.taxonomy.services import start_document_import, start_mcp_import
from webapp.taxonomy.theme_services import save_typed_theme

router = Router()


@router.get("/taxonomy", auth=require_scope("read"), response=PageOf[NodeOut], tags=["taxonomy"])
def list_nodes(request: HttpRequest, query: Query[NodeQuery]) -> Any:
    """Labels in the order of their paths, each with what hangs on it and below it."""
    parent = find_present_node(query.parent)
    return cursor_page(queries.filter_nodes(query.q, parent.pk if parent else query.parent, query.level), query, "path")


@router.get("/taxonomy/{pk}", auth=require_scope("read"), response=NodeOut, tags=["taxonomy"])
def get_node(request: HttpRequest, pk: Id) -> Any:
    """One label with what hangs on it and below it. The address of one that was merged or deleted leads (302) to what
    it became."""
    now = find_present_node(pk)
    if now is not None and now.pk != pk:
        return redirect(reverse("api:get_node", args=[now.pk]))
    return get_object_or_404(queries.nodes_with_counts(), pk=pk)


@router.get("/themes", auth=require_scope("read"), response=PageOf[ThemeLine], tags=["themes"])
def list_themes(request: HttpRequest, query: Query[ThemeQuery]) -> Any:
    """Themes, filtered and ordered as on their page."""
    filters = query.filters()
    node = find_present_node(query.node)
    if query.node and node is None:
        raise build_unknown_id_problem("query", "node", query.node)
    return cursor_page(queries.filter_themes(filters, node), query, filters.order)


@router.post("/themes", auth=require_scope("synthesise"), response={201: ThemeOut, 200: ThemeOut}, tags=["themes"])
@idempotent
def create_theme(request: HttpRequest, body: ThemeIn) -> Any:
    """Keep a theme that a person typed (201). The same words again give the theme that there is (200)."""
    saved, row = save_typed_theme(get_acting_user(request), body.name, body.description, body.category)
    return Status(201 if saved == "created" else 200, row)


@router.get("/themes/{pk}", auth=require_scope("read"), response=ThemeOut, tags=["themes"])
def get_theme(request: HttpRequest, pk: Id) -> Theme:
    """One theme with its tools as they were described."""
    return get_object_or_404(Theme.objects.prefetch_related("tools"), pk=pk)


@router.post("/imports/mcp-servers", auth=require_scope("synthesise"), response={202: JobOut}, tags=["themes"])
@idempotent
def import_mcp_servers(request: HttpRequest, servers: File[UploadedFile]) -> Job:
    """Import MCP servers as themes: JSON Lines or JSON, plain or gzipped. Follow the job at /jobs/{id}."""
    require_no_atif("servers", servers, "MCP servers")
    return start_mcp_import(get_acting_user(request), servers)


@router.post("/imports/tool-documents", auth=require_scope("synthesise"), response={202: JobOut}, tags=["themes"])
@idempotent
def import_tool_documents(
    request: HttpRequest,
    document: File[UploadedFile],
    name: Form[str] = "",
    category: Form[str] = "",
    kind: Form[DocumentKind] = "tools",
) -> Job:
    """Import a document of tools, or of product requirements, as a theme. Follow the job at /jobs/{id}.

    OpenAPI 3.0 and 3.1, Swagger 2, MCP tool lists, function lists and Markdown are read; `name` replaces the document's
    own title. With `kind` `requirements` it is Markdown with English headings on background, workflows and interfaces.
    """
    require_no_atif("document", document, "tool documents")
    return start_document_import(get_acting_user(request), document, name, category, kind)
