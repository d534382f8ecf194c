"""What an owner decides for the tenant."""

from django import forms


class SharingForm(forms.Form):
    """Whether misses are counted."""

    shares_fragment_counts = forms.BooleanField(
        label="Count which fragments the tables lack",
        required=False,
        help_text="Tables can then grow by what traffic missed. Of the texts that your models read, the"
        " fragments that a table lacks (runs of two to five tokens, which can be read back as words) are kept"
        " with how often they were missed: at most 20,000 for each table, until the table has grown or you"
        " have missed nothing for 30 days. A domain that all tenants read takes only fragments that several"
        " tenants missed; your own domains take what you missed. Turned off, nothing is counted, and your"
        " counts are deleted within a few minutes.",
    )
