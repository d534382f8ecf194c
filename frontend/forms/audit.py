"""Which events of the audit log are looked for."""

from typing import Any

from django import forms

from tenants.accounts.models import Tenant
from tenants.accounts.selectors import audit_actors
from tenants.audit.selectors import SYSTEM, AuditWish, audit_kinds

NAMES = {"api_key": "API keys", "model": "Models"}


class AuditForm(forms.Form):
    """By whom, of what kind, about what, when."""

    actor = forms.ChoiceField(label="Who", required=False)
    kind = forms.ChoiceField(label="What", required=False)
    words = forms.CharField(label="Name", required=False, max_length=100)
    since = forms.DateField(label="From", required=False, widget=forms.DateInput({"type": "date"}))
    until = forms.DateField(label="To", required=False, widget=forms.DateInput({"type": "date"}))

    def __init__(self, tenant: Tenant, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        who = [(name, "The system" if name == SYSTEM else name) for name in audit_actors(tenant)]
        kinds = [
            (kind, NAMES.get(kind) or f"{kind.replace('_', ' ').capitalize()}s")
            for kind in audit_kinds(tenant)
        ]
        self.fields["actor"] = forms.ChoiceField(
            label="Who", required=False, choices=[("", "Everybody"), *who]
        )
        self.fields["kind"] = forms.ChoiceField(
            label="What", required=False, choices=[("", "Everything"), *kinds]
        )

    def wish(self) -> AuditWish:
        """What was asked for; everything where that makes no sense."""
        return AuditWish(**self.cleaned_data) if self.is_valid() else AuditWish()
