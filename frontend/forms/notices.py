"""The form of a user's notices."""

from django import forms


class NoticesForm(forms.Form):
    """Whether the user is told of jobs that ended."""

    notifies_of_jobs = forms.BooleanField(
        label="Notify me when my jobs end",
        required=False,
        help_text="Marks Jobs in the navigation, and sends an e-mail to your confirmed address if"
        " this installation can send e-mail.",
    )
