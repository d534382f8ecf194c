"""Confirmation of destructive admin actions: the user types the name of what the action is applied to."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Final

from django.contrib import admin
from django.contrib.admin.actions import delete_selected as django_delete_selected
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from tenants.base.admin.base import RETURN_TO_FIELD, change_url

AdminAction = Callable[[Any, HttpRequest, QuerySet[Any]], HttpResponse | None]

TYPED_NAME_FIELD: Final = "typed_name"
MAX_LISTED: Final = 20
"""Rows listed on the page, and dependents listed per row."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The verb of the action, the page's title, the phrase to type, and a sentence about the consequences."""

    verb: str
    title: str
    phrase: str
    warning: str = ""


@dataclass(frozen=True, slots=True)
class AffectedRow:
    """A row with its first dependents, and the number of the others."""

    name: str
    dependents: list[str] = field(default_factory=list)
    more: int = 0


def require_typed_name(
    verb: str,
    *,
    warning: str = "",
    dependents: Callable[[Any], list[str]] | None = None,
    confirm_single: bool = True,
) -> Callable[[AdminAction], AdminAction]:
    """Decorate an admin action, below ``admin.action``, to run only once its confirmation phrase is typed.

    The phrase is the row's name or, for several rows, "<verb> 12 models". Until it is typed, a page shows
    ``warning`` and what ``dependents`` lists for each row; ``{these}`` in the warning is "this model" or "12
    models". A wrong phrase keeps the selection.
    With ``confirm_single=False`` a single row needs no confirmation.
    """

    def decorate(action: AdminAction) -> AdminAction:
        @wraps(action)
        def confirmed(model_admin: Any, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse | None:
            phrase = _phrase(verb, model_admin, rows)
            if is_name_typed(request, phrase) or (not confirm_single and rows.count() == 1):
                return action(model_admin, request, rows)
            these = _these(model_admin, rows)
            title, told = f"{verb.capitalize()} {these}?", warning.format(these=these)
            confirmation = Confirmation(verb, title, phrase, told)
            return _action_confirmation(model_admin, request, rows, confirmation, dependents)

        return confirmed

    return decorate


def confirmation_response(
    request: HttpRequest,
    confirmation: Confirmation,
    *,
    rows: list[AffectedRow],
    more: int = 0,
    hidden: list[tuple[str, str]],
    context: dict[str, Any],
) -> HttpResponse:
    """Return the confirmation page. Its form posts the typed name and the ``hidden`` fields to the same URL.

    ``context`` holds the admin site's context, and the URL of the cancel link as ``back``.
    """
    own = {
        "title": confirmation.title,
        "confirmation": confirmation,
        "rows": rows,
        "more": more,
        "hidden": hidden,
        "wrong": request.POST.get(TYPED_NAME_FIELD),
        "field": TYPED_NAME_FIELD,
    }
    return TemplateResponse(request, "base/admin/confirm.html", {**context, **own})


def is_name_typed(request: HttpRequest, phrase: str) -> bool:
    """Return whether the request has this phrase, whatever the white space between its words."""
    return " ".join(request.POST.get(TYPED_NAME_FIELD, "").split()) == phrase


def _phrase(verb: str, model_admin: Any, rows: QuerySet[Any]) -> str:
    count = rows.count()
    name = str(rows.get()) if count == 1 else f"{verb} {count} {model_admin.opts.verbose_name_plural}"
    return " ".join(name.split())


def _these(model_admin: Any, rows: QuerySet[Any]) -> str:
    count, opts = rows.count(), model_admin.opts
    return f"this {opts.verbose_name}" if count == 1 else f"{count} {opts.verbose_name_plural}"


def _action_confirmation(
    model_admin: Any,
    request: HttpRequest,
    rows: QuerySet[Any],
    confirmation: Confirmation,
    dependents: Callable[[Any], list[str]] | None,
) -> HttpResponse:
    count, page = rows.count(), request.POST.get(RETURN_TO_FIELD, "")
    affected = []
    for row in rows[:MAX_LISTED]:
        names = dependents(row) if dependents else []
        affected.append(AffectedRow(str(row), names[:MAX_LISTED], max(0, len(names) - MAX_LISTED)))
    across = request.POST.get("select_across", "0")
    # With "select all pages" the action applies to the whole list, whatever is ticked.
    selected = request.POST.getlist(ACTION_CHECKBOX_NAME)[: 1 if across == "1" else None]
    hidden = [("action", request.POST["action"]), ("select_across", across), ("post", "yes")]
    hidden += [(RETURN_TO_FIELD, page)] if page else []
    hidden += [(ACTION_CHECKBOX_NAME, pk) for pk in selected]
    context = {
        **model_admin.admin_site.each_context(request),
        "opts": model_admin.opts,
        "media": model_admin.media,
        "back": change_url(model_admin, page) if page else request.get_full_path(),
    }
    request.current_app = model_admin.admin_site.name
    return confirmation_response(
        request, confirmation, rows=affected, more=count - len(affected), hidden=hidden, context=context
    )


@admin.action(description="Delete selected %(verbose_name_plural)s", permissions=["delete"])
@require_typed_name("delete", warning="Related objects are deleted too. This cannot be undone.")
def delete_selected(model_admin: Any, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse | None:
    """Call Django's own action, which refuses protected rows, without its confirmation page."""
    return django_delete_selected(model_admin, request, rows)


admin.site.add_action(delete_selected, "delete_selected")
