"""Search, filters and order of the lists of models and jobs."""

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
    """A search form above a list. All fields are optional, and invalid values are ignored."""

    q = forms.CharField(label="Search by name", required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        attributes = {"placeholder": "Search by name", "autocomplete": "off", "spellcheck": "false"}
        self.fields["q"].widget = forms.TextInput({"type": "search", **attributes})

    def values(self) -> dict[str, Any]:
        """Return the valid values by field."""
        self.is_valid()
        return {name: self.cleaned_data.get(name, "") for name in self.fields}


FAILING: Final = "failing"
STATUSES: Final = (
    ("", "Any status"),
    (FAILING, "Failing requests"),
    ("building", "Training"),
    ("failed", "Failed"),
    ("ready", "Ready"),
)
MODEL_ORDERS: Final[dict[str, tuple[str, ...]]] = {"": ("name",), "newest": ("-created_at", "-pk")}


@dataclass(frozen=True, slots=True)
class ModelsQuery:
    """The filters and the order of a list of models. `failing` is a filter by recent requests."""

    filters: dict[str, Any]
    failing: bool
    order: tuple[str, ...]


class ModelsForm(ListForm):
    """The filters of the list of models: name, task, status and parent."""

    task = forms.ChoiceField(label="Task", required=False, choices=[("", "Any task"), *Task.choices])
    status = forms.ChoiceField(label="Status", required=False, choices=STATUSES)
    under = forms.ChoiceField(label="Base model", required=False)
    sort = forms.ChoiceField(
        label="Order", required=False, choices=[("", "By name"), ("newest", "Newest first")]
    )

    def __init__(self, branches: Mapping[Branch, str], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.branches = {_branch_key(branch): branch for branch in branches}
        named = [(_branch_key(branch), name) for branch, name in branches.items()]
        self.fields["under"].choices = [("", "Any base model"), *named]  # type: ignore[attr-defined]

    def query(self) -> ModelsQuery:
        """Return the filters and the order."""
        values = self.values()
        status = values["status"]
        return ModelsQuery(
            {
                "words": values["q"],
                "task": values["task"],
                "branch": self.branches.get(values["under"]),
                "state": "" if status == FAILING else status,
            },
            status == FAILING,
            MODEL_ORDERS[values["sort"]],
        )


def _branch_key(branch: Branch) -> str:
    return f"domain-{branch.domain}" if branch.domain is not None else f"root-{branch.root}"


STATES: Final[dict[str, frozenset[JobState]]] = {
    "finished": TERMINAL,
    "failed": frozenset({JobState.FAILED}),
    "succeeded": frozenset({JobState.SUCCEEDED}),
    "cancelled": frozenset({JobState.CANCELLED}),
}
_STARTED: Final = Coalesce("started_at", "created_at")
_DURATION: Final = F("finished_at") - F("started_at")
JOB_ORDERS: Final[dict[str, tuple[OrderBy | str, ...]]] = {
    "": (_STARTED.desc(), "-created_at", "pk"),
    "oldest": (_STARTED.asc(), "created_at", "-pk"),
    "longest": (_DURATION.desc(nulls_last=True), _STARTED.desc(), "pk"),
}


@dataclass(frozen=True, slots=True)
class JobsQuery:
    """The filters and the order of a list of jobs."""

    filters: dict[str, str]
    state: str
    order: tuple[OrderBy | str, ...]


class JobsForm(ListForm):
    """The filters of the list of jobs. The state is changed by links beside the form."""

    kind = forms.ChoiceField(label="Kind", required=False, choices=[("", "All kinds"), *JobKind.choices])
    sort = forms.ChoiceField(
        label="Order",
        required=False,
        choices=[("", "Newest first"), ("oldest", "Oldest first"), ("longest", "Longest first")],
    )
    state = forms.ChoiceField(
        required=False, choices=[(state, state) for state in STATES], widget=forms.HiddenInput
    )

    def query(self) -> JobsQuery:
        """Return the filters and the order."""
        values = self.values()
        filters = {"words": values["q"], "kind": values["kind"]}
        return JobsQuery(filters, values["state"] or next(iter(STATES)), JOB_ORDERS[values["sort"]])
