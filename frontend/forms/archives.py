"""Forms for imports of versions and adapters."""

from typing import Any, Final

from django import forms

from frontend.forms.base import MAX_NAME_LENGTH, RowChoiceField, RowChoiceForm, slug_field
from frontend.forms.tree import NO_PARENT, offer_parents
from tenants.accounts.models import Tenant
from tenants.datasets.models import Task
from versiontree.tree.services.licenses import MAX_LICENSE_LENGTH

OPEN_TASKS: Final = (
    Task.CLASSIFICATION,
    Task.MULTILABEL,
    Task.REGRESSION,
    Task.GENERATION,
    Task.CHAT,
)
"""Tasks that an adapter's folder does not always tell."""


class ImportForm(forms.Form):
    """An exported version."""

    archive = forms.FileField(
        label="Archive",
        allow_empty_file=True,
        help_text="The zip file of an exported version, from this or another installation.",
        widget=forms.ClearableFileInput({"accept": ".zip,application/zip"}),
    )
    name = forms.CharField(
        label="Name",
        required=False,
        max_length=MAX_NAME_LENGTH,
        help_text="Leave empty to keep the name in the archive.",
        widget=forms.TextInput({"autocomplete": "off", "spellcheck": "false"}),
    )


class ImportAdapterForm(RowChoiceForm):
    """An adapter of PEFT or AdapterHub, and what its folder does not contain."""

    archive = forms.FileField(
        label="Adapter",
        allow_empty_file=True,
        help_text="A zip file of the folder that PEFT or AdapterHub saved, with safetensors weights.",
        widget=forms.ClearableFileInput({"accept": ".zip,application/zip"}),
    )
    name = slug_field()
    parent = RowChoiceField(
        label="Base model",
        help_text="The root whose checkpoint the adapter was trained on, or a domain of that root.",
        missing=NO_PARENT,
    )
    labels = forms.CharField(
        label="Labels",
        required=False,
        help_text="One per line, in the order of the outputs. Leave empty if the folder names them.",
        widget=forms.Textarea({"rows": 3}),
    )
    task = forms.ChoiceField(
        label="Task",
        required=False,
        choices=[
            ("", "Detect from the folder"),
            *((task.value, task.label) for task in OPEN_TASKS),
        ],
        help_text="Below a decoder: generation or chat. By default chat if the root has a chat template.",
    )
    pairs = forms.BooleanField(label="Inputs are pairs of texts", required=False)
    drop_lower = forms.BooleanField(
        label="Discard changes to the lower layers",
        required=False,
        help_text="The lookup table replaces the lower layers. Answers differ from the original model's.",
    )
    license = forms.CharField(label="License", required=False, max_length=MAX_LICENSE_LENGTH)

    def __init__(self, tenant: Tenant, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offer_parents(self, tenant, decoders=True)

    def clean_labels(self) -> list[str]:
        """Return the labels: all lines that are not empty."""
        return [line.strip() for line in self.cleaned_data["labels"].splitlines() if line.strip()]
