"""The form for a new model, filled in step by step. The URL carries the values of earlier steps."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, ClassVar, Final

from django import forms
from django.http import QueryDict

from frontend.forms.base import slug_field
from tenants.accounts.models import Tenant
from tenants.base.errors import HmiError
from tenants.base.row_ids import row_id
from tenants.datasets.models import DATASET_TASK_CHOICES
from tenants.datasets.selectors.uploads import dataset_of
from versiontree.jobs.models import JobKind
from versiontree.tree.selectors.versions import root_kind_of, version_visible_to
from versiontree.tree.services.hplms import QUICK_TASKS
from versiontree.tree.services.licenses import MAX_LICENSE_LENGTH
from versiontree.tree.training_fields import TrainingSettingsForm


class CreateStep(StrEnum):
    """The steps in their order."""

    DATA = "data"
    PARENT = "parent"
    SETTINGS = "settings"
    REVIEW = "review"


TITLES: Final = {
    CreateStep.DATA: "Data",
    CreateStep.PARENT: "Base model",
    CreateStep.SETTINGS: "Settings",
    CreateStep.REVIEW: "Review",
}
UNFOLDED: Final = ("epochs", "learning_rate", "batch_size", "lora")
"""Training settings that are not folded."""


@dataclass(frozen=True, slots=True)
class StepMark:
    """An entry in the list of steps. `query` leads to the step."""

    title: str
    query: str
    now: bool
    passed: bool


class RowField(forms.IntegerField):
    """The id of a row that the tenant may use. It cleans to the row."""

    def __init__(self, find: Callable[[int], Any], message: str) -> None:
        super().__init__(
            widget=forms.HiddenInput, error_messages=dict.fromkeys(("required", "invalid"), message)
        )
        self._find = find

    def clean(self, value: Any) -> Any:
        """Return the row. Raises ValidationError if it does not exist."""
        try:
            return self._find(super().clean(value))
        except HmiError as refusal:
            raise forms.ValidationError(refusal.message) from refusal


class OptOut(forms.CheckboxInput):
    """A check box that is ticked unless it was sent without its tick. A hidden input before it tells that
    from a form that did not show it."""

    template_name = "frontend/create_model/opt_out.html"

    def __init__(self) -> None:
        super().__init__(check_test=lambda value: value not in (False, "false"))

    def value_from_datadict(self, data: Any, files: Any, name: str) -> bool:
        """Return whether it is ticked."""
        return bool(data.get(name) != "false")


class CreateForm(TrainingSettingsForm, forms.Form):
    """All values of a new model."""

    kind: ClassVar[JobKind] = JobKind.FINE_TUNE
    more_label = "More settings"

    name = slug_field()
    quick = forms.BooleanField(
        label="Quick version first",
        required=False,
        initial=True,
        widget=OptOut,
        help_text="A simpler version answers within seconds, until the trained version is ready.",
    )
    license = forms.CharField(
        label="License",
        required=False,
        max_length=MAX_LICENSE_LENGTH,
        help_text="For example apache-2.0. It is shown in the model card.",
    )

    def __init__(
        self,
        tenant: Tenant,
        data: QueryDict | None = None,
        *,
        task: str | None = None,
        initial: Mapping[str, Any] | None = None,
    ) -> None:
        """``task``: that of the model; None: as the dataset in ``data`` says, if one is chosen."""
        self.task = _task(tenant, data) if task is None else task
        root = root_kind_of(self.task)
        super().__init__(data, initial=initial, root=root)
        self.fields["dataset"] = RowField(partial(dataset_of, tenant), "Choose a dataset.")
        self.fields["parent"] = RowField(partial(version_visible_to, tenant), "Choose a base model.")
        if self.task and self.task not in QUICK_TASKS:
            del self.fields["quick"]
        self.more = tuple(name for name in self.more if name not in UNFOLDED)

    def of_step(self, step: CreateStep) -> list[str]:
        """Return the names of the fields of a step."""
        chosen = {CreateStep.DATA: ["dataset"], CreateStep.PARENT: ["parent"], CreateStep.REVIEW: []}
        others = [name for name in self.fields if name not in ("dataset", "parent")]
        return chosen.get(step, others)

    def first_invalid(self, before: CreateStep) -> CreateStep | None:
        """Return the first step before this one that has errors."""
        steps = list(CreateStep)
        return next(
            (
                step
                for step in steps[: steps.index(before)]
                if any(name in self.errors for name in self.of_step(step))
            ),
            None,
        )

    def filled(self, without: CreateStep | None = None) -> dict[str, str]:
        """Return the values, without those of one step."""
        left_out = self.of_step(without) if without else []
        values = {name: str(self.data.get(name, "")) for name in self.fields if name not in left_out}
        return {name: value for name, value in values.items() if value}

    def query(self, step: CreateStep) -> str:
        """Return the query of a step, with all values."""
        query = QueryDict(mutable=True)
        query.update({"step": step.value, **self.filled()})
        return f"?{query.urlencode()}"

    def marks(self, now: CreateStep) -> list[StepMark]:
        """Return the list of steps."""
        steps = list(CreateStep)
        return [
            StepMark(TITLES[step], self.query(step), step == now, steps.index(step) < steps.index(now))
            for step in steps
        ]


def _task(tenant: Tenant, data: QueryDict | None) -> str:
    """Return the task of the chosen dataset; empty without one."""
    chosen = row_id(str(data.get("dataset", ""))) if data is not None else 0
    try:
        return dataset_of(tenant, chosen).task if chosen else ""
    except HmiError:  # the field says so
        return ""


def step_of(data: QueryDict) -> CreateStep:
    """Return the step in the query, otherwise the first one that is not filled in."""
    named = data.get("step", "")
    if named in set(CreateStep):
        return CreateStep(named)
    if not data.get("dataset"):
        return CreateStep.DATA
    if not data.get("parent"):
        return CreateStep.PARENT
    return CreateStep.REVIEW if data.get("name") else CreateStep.SETTINGS


class DataFilter(forms.Form):
    """The filter of the datasets in the first step."""

    task = forms.ChoiceField(label="Task", required=False, choices=[("", "All tasks"), *DATASET_TASK_CHOICES])
    q = forms.CharField(
        label="Name",
        required=False,
        max_length=100,
        widget=forms.TextInput({"type": "search", "placeholder": "Part of the name"}),
    )
