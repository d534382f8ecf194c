"""The help: chapters, search and glossary, within the navigation of the tenant that the user came from."""

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import FileResponse, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_GET

from frontend import glossary as terms
from frontend.help_chapters import IMAGES, chapter_groups, chapter_of, search
from frontend.last_tenant import enter_last_tenant
from tenants.base.errors import ErrorCode, HmiError

WORDS = 100
"""The longest search."""


@require_GET
@login_required
def index(request: HttpRequest) -> HttpResponse:
    """List the chapters, or what a search over them finds."""
    words = request.GET.get("q", "").strip()[:WORDS]
    return _page(request, "index", words=words, terms=terms.terms_found(words), hits=search(words))


@require_GET
@login_required
def chapter(request: HttpRequest, name: str) -> HttpResponse:
    """Show a chapter."""
    found = chapter_of(name)
    if found is None:
        raise HmiError(ErrorCode.NOT_FOUND, "There is no such chapter.")
    return _page(request, "chapter", chapter=found)


@require_GET
@login_required
def glossary(request: HttpRequest) -> HttpResponse:
    """List the terms, in alphabetical order."""
    return _page(request, "glossary", terms=terms.all_terms())


@require_GET
@login_required
def image(request: HttpRequest, name: str) -> HttpResponseBase:  # noqa: ARG001
    """Send an image of a chapter."""
    file = IMAGES / name
    if file.parent != IMAGES or not file.is_file():
        raise HmiError(ErrorCode.NOT_FOUND, "There is no such image.")
    return FileResponse(file.open("rb"), headers={"Cache-Control": "private, max-age=3600"})


def _page(request: HttpRequest, template: str, **context: Any) -> HttpResponse:
    enter_last_tenant(request)
    return render(request, f"frontend/help/{template}.html", {"groups": chapter_groups(), **context})
