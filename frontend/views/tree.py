"""The version tree: the drawing, a branch of it that is opened or closed, and the card of a node."""

from typing import Any

from django.core.paginator import Page
from django.http import HttpResponse
from django.views.decorators.http import require_GET
from django.views.decorators.vary import vary_on_headers

from frontend.access import TenantRequest, tenant_member_required
from frontend.presenters.tree import Drawing, Node, answering, hplm_nodes, measured, node_of
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

CARD_VERSIONS = 6
DRAWN_WHOLE = 60
"""With so many nodes a tree is drawn with all its branches open."""
FOUND_SHOWN = 50


@require_GET
@vary_on_headers("HX-Request")
@tenant_member_required()
def tree(request: TenantRequest) -> HttpResponse:
    """The roots with what the platform and the tenant grew from them, or only what has the words of `?q=`."""
    tenant = request.access.tenant
    drawing = drawing_for(tenant)
    words = request.GET.get("q", "").strip()
    page = paginate(request, hplms_search(tenant, words=words), FOUND_SHOWN) if words else None
    nodes = _found(tenant, drawing, words, page) if page is not None else _overview(tenant, drawing)
    is_part = request.htmx and not request.htmx.history_restore_request
    template = "tree/drawing.html" if is_part else "tree/page.html"
    return render_page(request, template, nodes=nodes, words=words, page=page)


@require_GET
@tenant_member_required()
def branch(request: TenantRequest, kind: str, pk: int) -> HttpResponse:
    """One node: closed (`?close`), open, or what hangs on it from `?start=` on."""
    tenant = request.access.tenant
    drawing = drawing_for(tenant)
    asked = _branch(drawing, kind, pk)
    if "close" in request.GET:
        return render_page(request, "tree/node.html", node=drawing.closed(asked))
    start = _number(request.GET.get("start", ""))
    place = drawing.hplms_from(asked, start)
    found = hplms_search(tenant, branch=asked)[place]
    hplms = hplm_nodes(hplm_summaries(tenant, found)) if place.stop else {}
    node = drawing.opened(asked, start, hplms.get(asked, []))
    return render_page(request, "tree/children.html" if start else "tree/node.html", node=node)


@require_GET
@tenant_member_required()
def card(request: TenantRequest, kind: str, pk: int) -> HttpResponse:
    """What there is to know of a node at a glance, and where to go from it."""
    tenant = request.access.tenant
    if kind == VersionKind.HPLM:
        history = hplm_summaries(tenant, hplms_search(tenant).filter(pk=pk))
    else:
        drawing = drawing_for(tenant)
        history = drawing.history(_branch(drawing, kind, pk))
    if not history:
        raise not_found("model")
    newest = [(brief, measured(brief)) for brief in reversed(history[-CARD_VERSIONS:])]
    node = node_of(history)
    parent = next((one.pk for one in reversed(history) if one.state == VersionState.READY), None)
    return render_page(
        request, "tree/card.html", node=node, newest=newest, ready=answering(history), parent=parent
    )


def drawing_for(tenant: Tenant) -> Drawing:
    """The roots and domains that the tenant sees; two queries, whatever hangs on them."""
    return Drawing(branch_summaries(tenant), hplm_counts(tenant))


def _overview(tenant: Tenant, drawing: Drawing) -> list[Node]:
    if drawing.size > DRAWN_WHOLE:
        return drawing.outlined()
    return drawing.whole(hplm_nodes(hplm_summaries(tenant, hplms_search(tenant))))


def _found(tenant: Tenant, drawing: Drawing, words: str, page: Page[Any]) -> list[Node]:
    """The found of this page with all that leads to it; found branches are on the first."""
    hplms = hplm_nodes(hplm_summaries(tenant, page))
    return drawing.pruned(drawing.named(words) if page.number == 1 else set(), hplms)


def _branch(drawing: Drawing, kind: str, pk: int) -> Branch:
    found = drawing.branch_of(kind, pk)
    if found is None:
        raise not_found(kind if kind == VersionKind.ROOT else "domain")
    return found


def _number(asked: str) -> int:
    return int(asked) if asked.isdecimal() and len(asked) < 10 else 0
