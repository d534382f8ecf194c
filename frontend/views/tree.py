"""The version tree: the drawing, its branches, and the card of a node."""

from typing import Any

from django.core.paginator import Page
from django.http import HttpResponse
from django.views.decorators.http import require_GET
from django.views.decorators.vary import vary_on_headers

from frontend.access import TenantRequest, tenant_member_required
from frontend.presenters.tree import Drawing, Node, default_version, metric_text, model_nodes, node_of
from frontend.shortcuts import paginate, render_page
from tenants.accounts.models import Tenant
from tenants.base.errors import not_found
from versiontree.tree.models.version import VersionKind, VersionState
from versiontree.tree.selectors.browsing import (
    Branch,
    branch_summaries,
    hplm_counts,
    hplm_summaries,
    hplms_search,
)
from versiontree.tree.selectors.lineage import dependents_below

CARD_VERSIONS = 6
MAX_NODES_OPEN = 60
"""Up to this number of nodes, a tree is drawn with all branches open."""
FOUND_SHOWN = 50


@require_GET
@vary_on_headers("HX-Request")
@tenant_member_required()
def tree(request: TenantRequest) -> HttpResponse:
    """The tree of roots, domains and models, filtered by name with `?q=`."""
    tenant = request.access.tenant
    drawing = drawing_for(tenant)
    words = request.GET.get("q", "").strip()
    page = paginate(request, hplms_search(tenant, words=words), FOUND_SHOWN) if words else None
    nodes = _search_results(tenant, drawing, words, page) if page is not None else _overview(tenant, drawing)
    is_part = request.htmx and not request.htmx.history_restore_request
    template = "tree/drawing.html" if is_part else "tree/page.html"
    return render_page(request, template, nodes=nodes, words=words, page=page)


@require_GET
@tenant_member_required()
def branch(request: TenantRequest, kind: str, pk: int) -> HttpResponse:
    """A branch: closed (`?close`), open, or its children from `?start=` on."""
    tenant = request.access.tenant
    drawing = drawing_for(tenant)
    target = _branch(drawing, kind, pk)
    if "close" in request.GET:
        return render_page(request, "tree/node.html", node=drawing.closed(target))
    start = _number(request.GET.get("start", ""))
    models = drawing.models_from(target, start)
    found = hplms_search(tenant, branch=target)[models]
    nodes = model_nodes(hplm_summaries(tenant, found)) if models.stop else {}
    node = drawing.opened(target, start, nodes.get(target, []))
    return render_page(request, "tree/children.html" if start else "tree/node.html", node=node)


@require_GET
@tenant_member_required()
def card(request: TenantRequest, kind: str, pk: int) -> HttpResponse:
    """The card of a node: its newest versions, and links."""
    tenant = request.access.tenant
    if kind == VersionKind.HPLM:
        history = hplm_summaries(tenant, hplms_search(tenant).filter(pk=pk))
    else:
        drawing = drawing_for(tenant)
        history = drawing.history(_branch(drawing, kind, pk))
    if not history:
        raise not_found("model")
    newest = [(brief, metric_text(brief)) for brief in reversed(history[-CARD_VERSIONS:])]
    node = node_of(history)
    retired = history[0].root_retired
    parents = [] if retired else [one.pk for one in history if one.state == VersionState.READY]
    below = dependents_below(history[0].branch.root, tenant=tenant) if retired else None
    return render_page(
        request,
        "tree/card.html",
        node=node,
        newest=newest,
        ready=default_version(history),
        parent=parents[-1] if parents else None,
        below=below,
    )


def drawing_for(tenant: Tenant) -> Drawing:
    """Return the drawing of all roots and domains that the tenant sees. Two queries."""
    return Drawing(branch_summaries(tenant), hplm_counts(tenant))


def _overview(tenant: Tenant, drawing: Drawing) -> list[Node]:
    if drawing.size > MAX_NODES_OPEN:
        return drawing.outlined()
    return drawing.whole(model_nodes(hplm_summaries(tenant, hplms_search(tenant))))


def _search_results(tenant: Tenant, drawing: Drawing, words: str, page: Page[Any]) -> list[Node]:
    """Return the matching models of a page with their ancestors. Matching branches are on the first page."""
    models = model_nodes(hplm_summaries(tenant, page))
    return drawing.pruned(drawing.named(words) if page.number == 1 else set(), models)


def _branch(drawing: Drawing, kind: str, pk: int) -> Branch:
    found = drawing.branch_of(kind, pk)
    if found is None:
        raise not_found(kind if kind == VersionKind.ROOT else "domain")
    return found


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 0
