"""What people say of a model."""

from django import forms

from versiontree.transfer.archive.manifest import LONGEST


class AboutForm(forms.Form):
    """What it is for, and how it may be used."""

    description = forms.CharField(
        label="Description",
        required=False,
        max_length=LONGEST["description"],
        widget=forms.Textarea({"rows": 4}),
        help_text="What it is for, what it was made from, where it errs.",
    )
    license = forms.CharField(label="Licence", required=False, max_length=LONGEST["license"])
