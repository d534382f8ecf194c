"""Actions that cannot be undone are done once the name is typed of what they are done to."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Final

from django.contrib import admin
from django.contrib.admin.actions import delete_selected as delete_for_good
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from tenants.base.admin.base import PAGE_OF, page_of

Act = Callable[[Any, HttpRequest, QuerySet[Any]], HttpResponse | None]
Loss = Callable[[Any], list[str]]

TEMPLATE: Final = "base/admin/typed_name.html"
TYPED: Final = "typed_name"
SHOWN: Final = 20
"""So many rows are listed, and of each so many of the things that go with it."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be done, in a word and in a sentence, and what is to be typed for it."""

    verb: str
    title: str
    phrase: str
    told: str = ""


@dataclass(frozen=True, slots=True)
class Lost:
    """A row, and what goes with it: the first things, and how many others."""

    name: str
    things: list[str] = field(default_factory=list)
    others: int = 0


def typed_name(
    verb: str, *, told: str = "", loses: Loss | None = None, of_one: bool = True
) -> Callable[[Act], Act]:
    """Decorates an admin action, below ``admin.action``: it is done once somebody has typed the row's name,
    or, of several, "<verb> 12 models". Until then a page says what it means: ``told`` is a sentence,
    ``loses`` lists what one row takes with it. A wrong name keeps the selection. Where not asked ``of_one``,
    a single row needs no name.
    """

    def decorate(act: Act) -> Act:
        @wraps(act)
        def confirmed(model_admin: Any, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse | None:
            phrase = _phrase(verb, model_admin, rows)
            if is_typed(request, phrase) or (not of_one and rows.count() == 1):
                return act(model_admin, request, rows)
            question = Question(verb, _title(verb, model_admin, rows), phrase, told)
            return _confirmation(model_admin, request, rows, question, loses)

        return confirmed

    return decorate


def _phrase(verb: str, model_admin: Any, rows: QuerySet[Any]) -> str:
    count = rows.count()
    name = str(rows.get()) if count == 1 else f"{verb} {count} {model_admin.opts.verbose_name_plural}"
    return " ".join(name.split())


def _title(verb: str, model_admin: Any, rows: QuerySet[Any]) -> str:
    count, opts = rows.count(), model_admin.opts
    what = f"this {opts.verbose_name}" if count == 1 else f"{count} {opts.verbose_name_plural}"
    return f"{verb.capitalize()} {what}?"


def _confirmation(
    model_admin: Any, request: HttpRequest, rows: QuerySet[Any], question: Question, loses: Loss | None
) -> HttpResponse:
    count, page = rows.count(), request.POST.get(PAGE_OF, "")
    lost = [Lost(str(row), *_bounded(loses(row) if loses else [])) for row in rows[:SHOWN]]
    across = request.POST.get("select_across", "0")
    # With all pages selected the rows are those of the list, whatever is ticked.
    selected = request.POST.getlist(ACTION_CHECKBOX_NAME)[: 1 if across == "1" else None]
    hidden = [("action", request.POST["action"]), ("select_across", across), ("post", "yes")]
    hidden += [(PAGE_OF, page)] if page else []
    hidden += [(ACTION_CHECKBOX_NAME, pk) for pk in selected]
    context = {
        **model_admin.admin_site.each_context(request),
        "opts": model_admin.opts,
        "media": model_admin.media,
        "back": page_of(model_admin, page) if page else request.get_full_path(),
    }
    request.current_app = model_admin.admin_site.name
    return ask_for_name(request, question, lost=lost, more=count - len(lost), hidden=hidden, context=context)


def ask_for_name(
    request: HttpRequest,
    question: Question,
    *,
    lost: list[Lost],
    more: int = 0,
    hidden: list[tuple[str, str]],
    context: dict[str, Any],
) -> HttpResponse:
    """The page that asks. ``hidden`` is sent with the name, to where the page was asked for; ``context`` has
    what all pages of the administration have, and the address to go ``back`` to."""
    wrong = request.POST.get(TYPED)
    own = {"question": question, "lost": lost, "more": more, "hidden": hidden, "wrong": wrong, "field": TYPED}
    return TemplateResponse(request, TEMPLATE, {**context, "title": question.title, **own})


def is_typed(request: HttpRequest, phrase: str) -> bool:
    """Whether that was typed, however much room there is between its words."""
    return " ".join(request.POST.get(TYPED, "").split()) == phrase


def _bounded(things: list[str]) -> tuple[list[str], int]:
    """The first of them, and how many more there are."""
    return things[:SHOWN], max(0, len(things) - SHOWN)


@admin.action(description="Delete selected %(verbose_name_plural)s", permissions=["delete"])
@typed_name("delete", told="What belongs to them goes with them. It cannot be undone.")
def delete_selected(model_admin: Any, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse | None:
    """Django's own, which refuses what is protected, without its question: that was answered."""
    return delete_for_good(model_admin, request, rows)


admin.site.add_action(delete_selected, "delete_selected")
