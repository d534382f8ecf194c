"""Which of the tenant's models a list shows, and in which order."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django import forms

from frontend.forms.lists import ListForm
from tenants.datasets.models import Task
from versiontree.tree.selectors.browsing import Branch

FAILING: Final = "failing"
HEALTH: Final = (
    ("", "Any health"),
    (FAILING, "Requests fail"),
    ("building", "Being built"),
    ("failed", "Building failed"),
    ("ready", "Ready"),
)
ORDERS: Final[dict[str, tuple[str, ...]]] = {"": ("name",), "newest": ("-created_at", "-pk")}


@dataclass(frozen=True, slots=True)
class Asked:
    """What was chosen: by the tree, by the requests of the last days, and the order."""

    chosen: dict[str, Any]
    failing: bool
    order: tuple[str, ...]


class HplmsForm(ListForm):
    """By name, task, health, and what they hang on."""

    task = forms.ChoiceField(label="Task", required=False, choices=[("", "Any task"), *Task.choices])
    health = forms.ChoiceField(label="Health", required=False, choices=HEALTH)
    under = forms.ChoiceField(label="Under", required=False)
    sort = forms.ChoiceField(
        label="Order", required=False, choices=[("", "By name"), ("newest", "Newest first")]
    )

    def __init__(self, branches: Mapping[Branch, str], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.branches = {_key(branch): branch for branch in branches}
        named = [(_key(branch), name) for branch, name in branches.items()]
        self.fields["under"].choices = [("", "Any parent"), *named]  # type: ignore[attr-defined]

    def asked(self) -> Asked:
        """What the form says, as far as it can be read."""
        given = self.given()
        health = given["health"]
        return Asked(
            {
                "words": given["q"],
                "task": given["task"],
                "branch": self.branches.get(given["under"]),
                "state": "" if health == FAILING else health,
            },
            health == FAILING,
            ORDERS[given["sort"]],
        )


def _key(branch: Branch) -> str:
    return f"domain-{branch.domain}" if branch.domain is not None else f"root-{branch.root}"
