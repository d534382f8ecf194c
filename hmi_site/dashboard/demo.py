"""The demo on the dashboard: how it is, and the buttons that build and remove it."""

from dataclasses import dataclass
from typing import Final

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from demo.record.models import DemoPart, Goal
from demo.record.selectors import DemoState, DemoStatus, demo_status
from demo.record.services import demo_request
from hmi_site.dashboard.workers import command_view
from tenants.base.admin.base import staff_user
from tenants.base.admin.confirm import AffectedRow, Confirmation, confirmation_response, is_name_typed
from tenants.base.errors import not_found
from versiontree.tree.models import Root

SENTENCES: Final = {
    DemoState.ABSENT: "The demo is not built yet. It makes a root, a domain and models of several tenants.",
    DemoState.REMOVED: "The demo was removed.",
    DemoState.WORKING: "The demo is being built. Its jobs are listed with all others.",
    DemoState.INCOMPLETE: "The demo is not complete.",
    DemoState.BUILT: "The demo is complete.",
}
BUILD: Final = (Goal.BUILT, "Build the demo")
GO_ON: Final = (Goal.BUILT, "Go on")
REMOVE: Final = (Goal.REMOVED, "Remove the demo")
REBUILD: Final = (Goal.REBUILT, "Remove and build again")
BUTTONS: Final[dict[DemoState, tuple[tuple[Goal, str], ...]]] = {
    DemoState.ABSENT: (BUILD,),
    DemoState.REMOVED: (BUILD,),
    DemoState.WORKING: (REMOVE,),
    DemoState.INCOMPLETE: (GO_ON, REMOVE, REBUILD),
    DemoState.BUILT: (REMOVE, REBUILD),
}
PHRASE: Final = "remove the demo"
WARNING: Final = (
    "The models, datasets, domains and roots that the demo made are deleted. What people made stays, with"
    " what it stands on. Tenants in which nothing is left are suspended."
)


@dataclass(frozen=True, slots=True)
class DemoCard:
    """What the dashboard shows of the demo. ``is_empty``: there is no root, and none is being made."""

    text: str
    error: str
    buttons: tuple[tuple[Goal, str], ...]
    is_empty: bool


def demo_card() -> DemoCard:
    """The card of the demo (three queries)."""
    status = demo_status()
    is_working = status.state == DemoState.WORKING
    is_removing = is_working and status.goal == Goal.REMOVED
    text = "The demo is being removed." if is_removing else SENTENCES[status.state]
    buttons = () if is_removing else BUTTONS[status.state]
    is_empty = not is_working and not Root.objects.exists()
    return DemoCard(text, status.error, buttons, is_empty)


@command_view
def command_demo(request: HttpRequest, goal: str) -> HttpResponse:
    """Build the demo, or remove it after a confirmation."""
    if goal not in Goal.values:
        raise not_found("command")
    if goal != Goal.BUILT and not is_name_typed(request, PHRASE):
        return _confirmation(request)
    demo_request(goal=Goal(goal), actor=staff_user(request))
    messages.success(request, _said(demo_status()))
    return redirect("admin:index")


def _said(status: DemoStatus) -> str:
    return "The demo is being removed." if status.goal == Goal.REMOVED else SENTENCES[DemoState.WORKING]


def _confirmation(request: HttpRequest) -> HttpResponse:
    rows = [AffectedRow(part.name) for part in DemoPart.unscoped.all()]
    context = {**admin.site.each_context(request), "back": reverse("admin:index")}
    confirmation = Confirmation("remove", "Remove the demo?", PHRASE, WARNING)
    return confirmation_response(request, confirmation, rows=rows, hidden=[], context=context)
