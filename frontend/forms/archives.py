"""The forms of imports."""

from typing import Any

from django import forms

from frontend.forms.base import LONGEST_NAME, PickField, PickForm, slug_field
from frontend.forms.tree import NO_PARENT, offer_parents
from tenants.accounts.models import Tenant
from tenants.datasets.models import Task
from versiontree.tree.services.licences import LONGEST_LICENCE


class ImportForm(forms.Form):
    """An archive that an export made."""

    archive = forms.FileField(
        label="Archive",
        allow_empty_file=True,
        help_text="The zip file of a version that was exported, here or on another site.",
        widget=forms.ClearableFileInput({"accept": ".zip,application/zip"}),
    )
    name = forms.CharField(
        label="Name",
        required=False,
        max_length=LONGEST_NAME,
        help_text="What it is called here. The name it had, unless you say otherwise.",
        widget=forms.TextInput({"autocomplete": "off", "spellcheck": "false"}),
    )


class ImportAdapterForm(PickForm):
    """An adapter that another program trained, and what its folder does not say."""

    archive = forms.FileField(
        label="Adapter",
        allow_empty_file=True,
        help_text="A zip file of the folder that peft or adapters saved, as safetensors.",
        widget=forms.ClearableFileInput({"accept": ".zip,application/zip"}),
    )
    name = slug_field()
    parent = PickField(
        label="Parent",
        help_text="The root whose checkpoint it was trained on, or a domain below that root.",
        need=NO_PARENT,
    )
    labels = forms.CharField(
        label="Labels",
        required=False,
        help_text="One on each line, in the order of its outputs, unless its folder names them.",
        widget=forms.Textarea({"rows": 3}),
    )
    task = forms.ChoiceField(
        label="Task",
        required=False,
        choices=[
            ("", "As its folder says"),
            *((task.value, task.label) for task in (Task.CLASSIFICATION, Task.MULTILABEL, Task.REGRESSION)),
        ],
    )
    pairs = forms.BooleanField(label="Its inputs have two texts", required=False)
    drop_lower = forms.BooleanField(
        label="Leave out what it changes in the lower layers",
        required=False,
        help_text="The domain's table replaces them. Such a model answers otherwise than the original.",
    )
    license = forms.CharField(label="Licence", required=False, max_length=LONGEST_LICENCE)

    def __init__(self, tenant: Tenant, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offer_parents(self, tenant)

    def clean_labels(self) -> list[str]:
        """The lines that are not empty."""
        return [line.strip() for line in self.cleaned_data["labels"].splitlines() if line.strip()]
