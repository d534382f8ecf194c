"""API keys: hashed, with a visible prefix, scopes, expiry and revocation."""

import re
from typing import ClassVar, Final

from django.conf import settings
from django.db import models
from django.db.models import Q
from rest_framework_api_key.crypto import KeyGenerator
from rest_framework_api_key.models import AbstractAPIKey, BaseAPIKeyManager

from tenants.accounts.models.tenant import Tenant
from tenants.base.managers import TenantScopedManager
from tenants.usage.models import rate

KEY_PATTERN: Final = re.compile(r"[A-Za-z0-9]{8}\.[A-Za-z0-9]{32}")
KEY_RULE: Final = "A key is 8 letters or digits, a dot, and 32 letters or digits."


class Scope(models.TextChoices):
    """What requests with a key may do."""

    INFER = "infer", "Use models"
    MANAGE = "manage", "Manage models, data and domains"


class ApiKeyManager(BaseAPIKeyManager):
    """Creates keys and finds them by their plaintext."""

    def assign_key(self, obj: AbstractAPIKey) -> str:
        """Generate a key and return its plaintext.

        The primary key is the prefix. The library's contains the hash, which would appear in URLs and logs.
        """
        plaintext: str = super().assign_key(obj)
        obj.pk = obj.prefix
        return plaintext

    def assign_plaintext(self, obj: AbstractAPIKey, plaintext: str) -> None:
        """Store the hash and the prefix of a plaintext that has the form of a generated key."""
        obj.prefix = obj.pk = plaintext.partition(".")[0]
        obj.hashed_key = self.key_generator.hash(plaintext)

    def get_usable_keys(self) -> "models.QuerySet[ApiKey]":
        return self.filter(revoked=False).select_related("tenant")


class ScopedApiKeyManager(TenantScopedManager["ApiKey"]):
    """Has the generator, which ``AbstractAPIKey.is_valid`` takes from the manager ``objects``."""

    key_generator = KeyGenerator()


class ApiKey(AbstractAPIKey):
    """An API key of a tenant. Only its hash is stored. Its prefix is shown, and is the primary key."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="api_keys")
    scopes = models.JSONField(help_text='A list of "infer" and "manage".')
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)
    requests_per_minute = rate("Requests of any kind with this key", "the tenant's limits")
    tokens_per_minute = rate("Tokens of infer requests with this key", "the tenant's limit")
    replaces = models.OneToOneField(
        "self",
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        editable=False,
        related_name="replaced_by",
        help_text="The key that was rotated to create this one.",
    )

    unscoped: ClassVar[ApiKeyManager] = ApiKeyManager()
    objects: ClassVar[ScopedApiKeyManager] = ScopedApiKeyManager()  # type: ignore[assignment]  # narrower

    class Meta(AbstractAPIKey.Meta):
        abstract = False
        constraints = (
            models.CheckConstraint(
                condition=Q(id=models.F("prefix")),
                name="api_key_is_named_by_its_prefix",
                violation_error_message="The id of an API key must be its prefix.",
            ),
            models.CheckConstraint(
                condition=Q(scopes__contains=[]) & Q(scopes__contained_by=Scope.values) & ~Q(scopes=[]),
                name="api_key_scopes_are_known",
                violation_error_message="Choose at least one scope.",
            ),
            models.CheckConstraint(
                condition=Q(revoked=True) | Q(revoked_at=None),
                name="api_key_revoked_at_a_time_is_revoked",
                violation_error_message="Only a revoked key has a time of revocation.",
            ),
            models.CheckConstraint(
                condition=Q(requests_per_minute__gt=0, tokens_per_minute__gt=0),
                name="api_key_rates_are_above_0",
                violation_error_message="Rate limits must be above 0.",
            ),
        )

    def __str__(self) -> str:
        return f"{self.prefix} ({self.name})"

    @property
    def scope_labels(self) -> list[str]:
        """Return the scopes as forms name them."""
        return [str(Scope(scope).label) for scope in self.scopes]

    @property
    def state(self) -> str:
        """Return active, expired or revoked."""
        if self.revoked:
            return "revoked"
        return "expired" if self.has_expired else "active"

    def allows(self, scope: Scope) -> bool:
        """Whether the key has this scope."""
        return scope.value in self.scopes
