"""What an owner decides for the tenant."""

from django import forms


class SharingForm(forms.Form):
    """Whether misses are counted."""

    shares_fragment_counts = forms.BooleanField(
        label="Count which fragments the tables lack",
        required=False,
        help_text="A domain's table can then grow by the fragments that several tenants miss. Nothing but"
        " counts of fragments is kept: no text, and nothing that fewer than several tenants sent.",
    )
