"""What the admin forms that stand for a service share."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from django import forms
from django.db import transaction
from unfold.widgets import UnfoldAdminIntegerFieldWidget, UnfoldAdminSelectWidget

from tenants.base.admin.base import ModelForm
from tenants.base.errors import HmiError
from versiontree.tree.training_fields import Knobbed, Looks

# Not "dataset": the admin's theme takes a form with that field for something of its own.
DATASET: Final = "chosen_dataset"
UNFOLD: Final = Looks(number=UnfoldAdminIntegerFieldWidget, select=UnfoldAdminSelectWidget)


class _Rehearsed(Exception):
    """Undoes a rehearsal."""


def dry_run_refusal(act: Callable[[], object]) -> HmiError | None:
    """Do it and undo it; with what it was refused, if it was."""
    try:
        with suppress(_Rehearsed), transaction.atomic():
            act()
            raise _Rehearsed
    except HmiError as error:
        return error
    return None


class ServiceForm(ModelForm):
    """A form whose ``act`` is rehearsed once its fields are valid, and done when it is saved."""

    def act(self, actor: Any) -> Any:
        """Call the service."""
        raise NotImplementedError

    def clean(self) -> Any:
        """Refuse what the service refuses."""
        cleaned = super().clean()
        refusal = None if self.errors else dry_run_refusal(lambda: self.act(None))
        if refusal is not None:
            error = forms.ValidationError(refusal.message, code=str(refusal.code))
            self.add_error(self._field_of(refusal.param), error)
        return cleaned

    def _field_of(self, param: str | None) -> str | None:
        """The field that the refusal is about; a setting of a job stands under its own name."""
        name = DATASET if param == "dataset" else (param or "").removeprefix("settings.")
        return name if name in self.fields else None


class TrainingForm(Knobbed, ServiceForm):
    """A form with the settings of the training that it starts."""

    looks = UNFOLD
