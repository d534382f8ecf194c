"""The form of a tenant's quota, with storage in GB."""

from decimal import Decimal
from typing import Any, Final

from django import forms
from unfold.widgets import UnfoldAdminDecimalFieldWidget

from tenants.base.admin.base import ModelForm
from tenants.usage.models import Quota
from tenants.usage.models.usage import GIGABYTE

MAX_GB: Final = 9_000_000_000
"""What the database column holds, in bytes."""
RATE: Final = "Empty means the limit of the installation."


class GigabytesField(forms.DecimalField):
    """A number of bytes, shown and typed in GB (powers of ten)."""

    widget = UnfoldAdminDecimalFieldWidget

    def prepare_value(self, value: Any) -> Any:
        """The GB of a number of bytes; what was typed as it is."""
        if not isinstance(value, int):
            return value
        return f"{Decimal(value) / GIGABYTE:f}"

    def to_python(self, value: Any) -> Any:
        """The bytes that were typed as GB."""
        if isinstance(value, int):
            return value
        gigabytes = super().to_python(value)
        if gigabytes is None:
            return None
        if not gigabytes.is_finite() or not 0 <= gigabytes <= MAX_GB:
            raise forms.ValidationError(f"Enter a number from 0 to {MAX_GB:,}.", code="invalid")
        return int(gigabytes * GIGABYTE)

    def validate(self, value: Any) -> None:
        """Require a number. `to_python` has checked its range."""
        forms.Field.validate(self, value)

    def run_validators(self, value: Any) -> None:
        """Do nothing. They would count the digits of the bytes."""


class QuotaForm(ModelForm):
    """The limits of a tenant."""

    max_storage_bytes = GigabytesField(
        label="Storage limit (GB)",
        initial=Quota._meta.get_field("max_storage_bytes").default,
        help_text="Uploads, models and lookup tables. 1 GB is 1,000,000,000 bytes.",
    )

    class Meta:
        model = Quota
        fields = (
            "max_models",
            "max_domains",
            "max_storage_bytes",
            "max_active_jobs",
            "max_requests_per_day",
            "requests_per_minute",
            "tokens_per_minute",
            "manage_per_minute",
            "max_api_keys",
            "max_invitations_per_day",
        )
        labels = {
            "max_models": "Models",
            "max_domains": "Domains",
            "max_active_jobs": "Active jobs",
            "max_requests_per_day": "Requests per day",
            "requests_per_minute": "Requests per minute",
            "tokens_per_minute": "Tokens per minute",
            "manage_per_minute": "Management requests per minute",
            "max_api_keys": "API keys",
            "max_invitations_per_day": "Invitations per day",
        }
        help_texts = {
            "requests_per_minute": RATE,
            "tokens_per_minute": RATE,
            "manage_per_minute": RATE,
            "max_active_jobs": "Jobs that run or wait at the same time.",
            "max_api_keys": "Keys that are neither revoked nor expired.",
            "max_invitations_per_day": "Invitation links, including those sent again.",
        }
