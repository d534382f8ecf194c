"""Admin of API keys, stored idempotent responses and invitations."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from rest_framework_api_key.models import APIKey
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from tenants.accounts.models import ApiKey, Invitation, InvitationState, Scope
from tenants.accounts.services.api_keys import api_key_create, api_key_revoke
from tenants.base.admin.base import ModelForm, PageActionsAdmin, ReadOnlyAdmin, shown_once, staff_user
from tenants.base.admin.confirm import require_typed_name

# The model of djangorestframework-api-key is not used: its keys have no tenant.
admin.site.unregister(APIKey)


class ApiKeyForm(ModelForm):
    """A new key."""

    scopes = forms.MultipleChoiceField(choices=Scope.choices, widget=UnfoldAdminCheckboxSelectMultipleWidget)

    class Meta:
        model = ApiKey
        fields = ("tenant", "name", "scopes", "expiry_date")


@admin.register(ApiKey)
class ApiKeyAdmin(PageActionsAdmin):
    """API keys. They can be created and revoked, but not edited. The plaintext is shown only once."""

    form = ApiKeyForm
    list_display = (
        "prefix",
        "name",
        "tenant",
        "scope_names",
        "created",
        "expiry_date",
        "last_used_at",
        "state",
    )
    list_filter = ("revoked", ("tenant", AutocompleteSelectFilter), "created")
    list_select_related = ("tenant",)
    search_fields = ("prefix", "name", "tenant__slug")
    autocomplete_fields = ("tenant",)
    actions = ("revoke",)
    page_actions = destructive_actions = actions

    def available_actions(self, row: ApiKey) -> tuple[str, ...]:
        return () if row.revoked else self.page_actions

    def get_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        if obj is None:
            return ("tenant", "name", "scopes", "expiry_date")
        return (*self.list_display, "created_by")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return () if obj is None else ("scope_names", "state")

    @admin.display(description="Scopes")
    def scope_names(self, key: ApiKey) -> str:
        """Return the scopes as text."""
        return "; ".join(key.scope_labels)

    @admin.display(description="State", ordering="revoked")
    def state(self, key: ApiKey) -> str:
        """Return whether the key is revoked, expired or active."""
        return "Revoked" if key.revoked else "Expired" if key.has_expired else "Active"

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # The actions of the list need it; a single key cannot be edited.
        return obj is None and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: ApiKey, form: ModelForm, change: bool) -> None:
        key, plaintext = api_key_create(
            tenant=obj.tenant,
            name=obj.name,
            scopes=form.cleaned_data["scopes"],
            created_by=staff_user(request),
            expires_at=obj.expiry_date,
        )
        obj.pk, obj.prefix, obj._state.adding = key.pk, key.prefix, False
        text = "Copy the key now. It is shown only once."
        self.message_user(request, shown_once(text, plaintext), messages.WARNING)

    @admin.action(description="Revoke", permissions=["change"])
    @require_typed_name("revoke", warning="Calls with {these} fail within 5 seconds. This cannot be undone.")
    def revoke(self, request: HttpRequest, keys: QuerySet[ApiKey]) -> None:
        """Revoke the selected keys."""
        done = sum(api_key_revoke(api_key=key, actor=staff_user(request)) for key in keys)
        self.message_user(request, f"{done} revoked.", messages.WARNING)


@admin.register(Invitation)
class InvitationAdmin(ReadOnlyAdmin):
    """Invitations and their states. Their links are not shown."""

    list_display = ("email", "tenant", "role", "shown_state", "invited_by", "created_at", "expires_at")
    list_filter = ("state", "role", ("tenant", AutocompleteSelectFilter), "created_at")
    list_select_related = ("tenant", "invited_by")
    search_fields = ("email", "tenant__slug", "invited_by__username")
    date_hierarchy = "created_at"
    fields = (*list_display, "accepted_by", "ended_at")
    readonly_fields = ("shown_state",)

    @admin.display(description="State", ordering="state")
    def shown_state(self, invitation: Invitation) -> str:
        """Return the state, or that the invitation expired while it was waiting."""
        waiting = invitation.state == InvitationState.WAITING
        return "Expired" if waiting and invitation.is_expired else invitation.get_state_display()
