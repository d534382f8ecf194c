"""Which of the tenant's ended jobs a list shows, and in which order."""

from dataclasses import dataclass
from typing import Final

from django import forms
from django.db.models import F
from django.db.models.expressions import OrderBy
from django.db.models.functions import Coalesce

from frontend.forms.lists import ListForm
from versiontree.jobs.models.job import TERMINAL, JobKind, JobState

STATES: Final[dict[str, frozenset[JobState]]] = {
    "finished": TERMINAL,
    "failed": frozenset({JobState.FAILED}),
    "succeeded": frozenset({JobState.SUCCEEDED}),
    "cancelled": frozenset({JobState.CANCELLED}),
}
_STARTED: Final = Coalesce("started_at", "created_at")
_TOOK: Final = F("finished_at") - F("started_at")
ORDERS: Final[dict[str, tuple[OrderBy | str, ...]]] = {
    "": (_STARTED.desc(), "-created_at", "pk"),
    "oldest": (_STARTED.asc(), "created_at", "-pk"),
    "longest": (_TOOK.desc(nulls_last=True), _STARTED.desc(), "pk"),
}
"""By what the list shows of each."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What was chosen: by name and kind, how the jobs ended, and the order."""

    chosen: dict[str, str]
    shown: str
    order: tuple[OrderBy | str, ...]


class JobsForm(ListForm):
    """The state stays as it is: links beside the form change it."""

    kind = forms.ChoiceField(label="Kind", required=False, choices=[("", "All kinds"), *JobKind.choices])
    sort = forms.ChoiceField(
        label="Order",
        required=False,
        choices=[("", "Newest first"), ("oldest", "Oldest first"), ("longest", "Longest first")],
    )
    state = forms.ChoiceField(
        required=False, choices=[(state, state) for state in STATES], widget=forms.HiddenInput
    )

    def asked(self) -> Asked:
        """What the form says, as far as it can be read."""
        given = self.given()
        chosen = {"words": given["q"], "kind": given["kind"]}
        return Asked(chosen, given["state"] or next(iter(STATES)), ORDERS[given["sort"]])
