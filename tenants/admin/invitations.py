"""Invitations: owners make them, staff look."""

from django.contrib import admin

from tenants.admin.base import ReadOnly
from tenants.models import Invitation


@admin.register(Invitation)
class InvitationAdmin(ReadOnly):
    """Who was invited to which tenant, and what became of it. Links are shown to nobody."""

    list_display = ("email", "tenant", "role", "state", "invited_by", "created_at", "expires_at")
    list_filter = ("state", "role", ("tenant", admin.RelatedOnlyFieldListFilter), "created_at")
    list_select_related = ("tenant", "invited_by")
    search_fields = ("email", "tenant__slug", "invited_by__username")
    date_hierarchy = "created_at"
    exclude = ("token_hash",)
