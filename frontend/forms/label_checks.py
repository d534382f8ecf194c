"""The form that corrects the labels that look wrong."""

from collections.abc import Sequence
from enum import StrEnum

from django import forms
from django.http import QueryDict

from tenants.datasets.formats.corrections import Correction
from tenants.datasets.models import Dataset
from tenants.datasets.selectors.uploads import corrected_name
from versiontree.tree.selectors.label_checks import Suspect


class Choice(StrEnum):
    """What to do with a suspect."""

    KEEP = "keep"
    FIX = "fix"
    LEAVE_OUT = "leave_out"


class CorrectionsForm(forms.Form):
    """A choice for each suspect, and the name of the corrected dataset. `chosen`: the choice for all suspects
    that an unbound form shows."""

    name = forms.CharField(label="Name of the new dataset", max_length=100)

    def __init__(
        self,
        dataset: Dataset,
        suspects: Sequence[Suspect],
        data: QueryDict | None = None,
        *,
        chosen: Choice = Choice.KEEP,
    ) -> None:
        super().__init__(data, initial={"name": corrected_name(dataset)})
        self._suspects = {suspect_field(one): one for one in suspects}
        for name, suspect in self._suspects.items():
            fix = f"Use {suspect.suggested or 'no label'}"
            choices = [(Choice.KEEP, "Keep"), (Choice.FIX, fix), (Choice.LEAVE_OUT, "Leave out")]
            self.fields[name] = forms.ChoiceField(
                choices=choices, initial=chosen, required=False, widget=forms.RadioSelect
            )

    def corrections(self) -> list[Correction]:
        """Return the chosen corrections. A row that is left out has no other."""
        chosen = {name: self.cleaned_data[name] for name in self._suspects}
        left_out = {self._suspects[name].row for name, choice in chosen.items() if choice == Choice.LEAVE_OUT}
        fixed = [
            Correction(one.row, one.suggested, one.token)
            for name, one in self._suspects.items()
            if chosen[name] == Choice.FIX and one.row not in left_out
        ]
        return [*fixed, *(Correction(row, None) for row in sorted(left_out))]


def suspect_field(suspect: Suspect) -> str:
    """Return the name of the field of a suspect."""
    return f"row-{suspect.row}" if suspect.token is None else f"row-{suspect.row}-{suspect.token}"
