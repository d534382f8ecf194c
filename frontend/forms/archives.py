"""The form of an import."""

from django import forms

from frontend.forms.base import LONGEST_NAME


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
