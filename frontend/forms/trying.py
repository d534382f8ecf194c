"""The form of the page on which an hPLM is tried."""

from typing import Any

from django import forms

from tenants.models import Tenant
from versiontree.selectors import hplms_of


class TryForm(forms.Form):
    """A reference to an hPLM that can answer, and a text."""

    model = forms.ChoiceField(label="hPLM")
    text = forms.CharField(
        label="Text", strip=False, widget=forms.Textarea({"rows": 8, "placeholder": "Write or paste a text."})
    )

    def __init__(self, tenant: Tenant, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        aliases = [(hplm.name, alias) for hplm in hplms_of(tenant) for alias in hplm.aliases.all()]
        references = [
            (f"{name}@{alias.name}", f"{name} @{alias.name} (v{alias.version.number})")
            for name, alias in aliases
        ]
        self.fields["model"] = forms.ChoiceField(label="hPLM", choices=references)
