"""The form of a batch."""

from django import forms

from versiontree.tree.models.alias import DEFAULT_ALIAS


class BatchForm(forms.Form):
    """A model, and a file of inputs for it."""

    model = forms.CharField(
        label="Model",
        max_length=256,
        help_text=f"Its name; with @alias or :version for another than its {DEFAULT_ALIAS} version.",
        widget=forms.TextInput({"autocomplete": "off", "spellcheck": "false"}),
    )
    file = forms.FileField(
        label="Inputs",
        allow_empty_file=True,
        help_text="JSON lines, a million at most. On each a text, or an object such as {text, text_pair} or"
        " {question, context}; an id in it comes back beside its answer.",
        widget=forms.ClearableFileInput({"accept": ".jsonl,.ndjson,.json,.txt,application/jsonl"}),
    )
