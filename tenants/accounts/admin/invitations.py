"""Invitations: owners make them, staff look."""

from django.contrib import admin
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from tenants.accounts.models import Invitation
from tenants.base.admin.base import ReadOnly


@admin.register(Invitation)
class InvitationAdmin(ReadOnly):
    """Who was invited to which tenant, and what became of it. Links are shown to nobody."""

    list_display = ("email", "tenant", "role", "state", "invited_by", "created_at", "expires_at")
    list_filter = ("state", "role", ("tenant", AutocompleteSelectFilter), "created_at")
    list_filter_submit = True
    list_select_related = ("tenant", "invited_by")
    search_fields = ("email", "tenant__slug", "invited_by__username")
    date_hierarchy = "created_at"
    exclude = ("token_hash",)
