"""What a list shows of a tenant's things, and in which order: what the forms above lists share."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django import forms
from django.db.models import F
from django.db.models.expressions import OrderBy
from django.db.models.functions import Coalesce

from tenants.datasets.models import Task
from versiontree.jobs.models import TERMINAL, JobKind, JobState
from versiontree.tree.selectors.browsing import Branch


class ListForm(forms.Form):
    """Words to search for, and whatever else a list is chosen by. None must be filled in; what is none of the
    choices counts as nothing chosen."""

    q = forms.CharField(label="Search by name", required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        attributes = {"placeholder": "Search by name", "autocomplete": "off", "spellcheck": "false"}
        self.fields["q"].widget = forms.TextInput({"type": "search", **attributes})

    def given(self) -> dict[str, Any]:
        """What was filled in, as far as it can be read, by the names of the fields."""
        self.is_valid()
        return {name: self.cleaned_data.get(name, "") for name in self.fields}


FAILING: Final = "failing"


HEALTH: Final = (
    ("", "Any health"),
    (FAILING, "Failing requests"),
    ("building", "Building"),
    ("failed", "Build failed"),
    ("ready", "Ready"),
)


MODEL_ORDERS: Final[dict[str, tuple[str, ...]]] = {"": ("name",), "newest": ("-created_at", "-pk")}


@dataclass(frozen=True, slots=True)
class ModelsQuery:
    """What was chosen: by the tree, by the requests of the last days, and the order."""

    chosen: dict[str, Any]
    failing: bool
    order: tuple[str, ...]


class ModelsForm(ListForm):
    """By name, task, health, and what they hang on."""

    task = forms.ChoiceField(label="Task", required=False, choices=[("", "Any task"), *Task.choices])
    health = forms.ChoiceField(label="Health", required=False, choices=HEALTH)
    under = forms.ChoiceField(label="Parent", required=False)
    sort = forms.ChoiceField(
        label="Order", required=False, choices=[("", "By name"), ("newest", "Newest first")]
    )

    def __init__(self, branches: Mapping[Branch, str], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.branches = {_key(branch): branch for branch in branches}
        named = [(_key(branch), name) for branch, name in branches.items()]
        self.fields["under"].choices = [("", "Any parent"), *named]  # type: ignore[attr-defined]

    def asked(self) -> ModelsQuery:
        """What the form says, as far as it can be read."""
        given = self.given()
        health = given["health"]
        return ModelsQuery(
            {
                "words": given["q"],
                "task": given["task"],
                "branch": self.branches.get(given["under"]),
                "state": "" if health == FAILING else health,
            },
            health == FAILING,
            MODEL_ORDERS[given["sort"]],
        )


def _key(branch: Branch) -> str:
    return f"domain-{branch.domain}" if branch.domain is not None else f"root-{branch.root}"


STATES: Final[dict[str, frozenset[JobState]]] = {
    "finished": TERMINAL,
    "failed": frozenset({JobState.FAILED}),
    "succeeded": frozenset({JobState.SUCCEEDED}),
    "cancelled": frozenset({JobState.CANCELLED}),
}


_STARTED: Final = Coalesce("started_at", "created_at")


_TOOK: Final = F("finished_at") - F("started_at")


JOB_ORDERS: Final[dict[str, tuple[OrderBy | str, ...]]] = {
    "": (_STARTED.desc(), "-created_at", "pk"),
    "oldest": (_STARTED.asc(), "created_at", "-pk"),
    "longest": (_TOOK.desc(nulls_last=True), _STARTED.desc(), "pk"),
}
"""By what the list shows of each."""


@dataclass(frozen=True, slots=True)
class JobsQuery:
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

    def asked(self) -> JobsQuery:
        """What the form says, as far as it can be read."""
        given = self.given()
        chosen = {"words": given["q"], "kind": given["kind"]}
        return JobsQuery(chosen, given["state"] or next(iter(STATES)), JOB_ORDERS[given["sort"]])
