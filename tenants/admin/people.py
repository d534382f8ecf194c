"""Users, tenants, memberships, quotas."""

from typing import Any

from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from tenants.admin.base import Listing, ModelAdmin, ModelForm, StackedInline, acting, linked
from tenants.models import Membership, Quota, Tenant, User
from tenants.services.members import member_add, member_remove, member_set_role
from tenants.services.tenants import (
    tenant_create,
    tenant_resume,
    tenant_set_sharing,
    tenant_set_weight,
    tenant_suspend,
)

admin.site.unregister(Group)


@admin.register(Group)
class GroupAdmin(DjangoGroupAdmin, ModelAdmin):
    """Groups of staff."""


@admin.register(User)
class UserAdmin(DjangoUserAdmin, ModelAdmin):  # type: ignore[type-arg]
    """People. Deactivate them rather than delete them: what they did keeps their name."""

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_display = ("username", "email", "is_active", "is_staff", "last_login", "date_joined")
    list_filter = ("is_active", "is_staff", "is_superuser")


class MembershipInline(Listing):
    """The members; they are changed on their own pages."""

    model = Membership
    fields = ("member", "role", "created_at")

    @admin.display(description="Member")
    def member(self, membership: Membership) -> SafeString:
        """Who it is."""
        return linked(membership, str(membership.user))


class QuotaInline(StackedInline):
    """How much the tenant may have and use."""

    model = Quota
    can_delete = False


@admin.register(Tenant)
class TenantAdmin(ModelAdmin):
    """Tenants; suspended ones get 403 for everything."""

    list_display = (
        "slug",
        "name",
        "member_count",
        "weight",
        "shares_fragment_counts",
        "suspended_at",
        "created_at",
    )
    list_filter = (("suspended_at", admin.EmptyFieldListFilter), "created_at")
    ordering = ("slug",)
    search_fields = ("slug", "name")
    actions = ("suspend", "resume")
    fields = ("slug", "name", "weight", "shares_fragment_counts", "suspended_at", "created_at")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        tenants: QuerySet[Any] = super().get_queryset(request).annotate(member_count=Count("memberships"))
        return tenants

    @admin.display(description="Members", ordering="member_count")
    def member_count(self, tenant: Any) -> int:
        """How many people belong to it."""
        return int(tenant.member_count)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("suspended_at", "created_at") if obj is None else ("slug", "suspended_at", "created_at")

    def get_inlines(self, request: HttpRequest, obj: Any) -> list[Any]:
        return [] if obj is None else [QuotaInline, MembershipInline]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # Its audit events stay for ever, and so does it: suspend it.
        return False

    def save_model(self, request: HttpRequest, obj: Tenant, form: ModelForm, change: bool) -> None:
        shares, weight = obj.shares_fragment_counts, obj.weight
        if change:
            obj.save(update_fields=["name"])
        else:
            made = tenant_create(slug=obj.slug, name=obj.name, actor=acting(request))
            obj.pk, obj._state.adding = made.pk, False
        tenant_set_sharing(tenant=obj, shares=shares, actor=acting(request))
        tenant_set_weight(tenant=obj, weight=weight, actor=acting(request))

    @admin.action(description="Suspend", permissions=["change"])
    def suspend(self, request: HttpRequest, tenants: QuerySet[Tenant]) -> None:
        """Stop all their requests."""
        done = sum(tenant_suspend(tenant=tenant, actor=acting(request)) for tenant in tenants)
        self.message_user(request, f"{done} suspended.", messages.WARNING)

    @admin.action(description="Resume", permissions=["change"])
    def resume(self, request: HttpRequest, tenants: QuerySet[Tenant]) -> None:
        """Let them work again."""
        done = sum(tenant_resume(tenant=tenant, actor=acting(request)) for tenant in tenants)
        self.message_user(request, f"{done} resumed.", messages.SUCCESS)


@admin.register(Membership)
class MembershipAdmin(ModelAdmin):
    """Who belongs to which tenant, in which role."""

    list_display = ("tenant", "user", "role", "created_at")
    list_filter = ("role", "tenant")
    list_select_related = ("tenant", "user")
    search_fields = ("tenant__slug", "user__username", "user__email")
    autocomplete_fields = ("tenant", "user")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return () if obj is None else ("tenant", "user")

    def save_model(self, request: HttpRequest, obj: Membership, form: ModelForm, change: bool) -> None:
        if change:
            member_set_role(membership=obj, role=obj.role, actor=acting(request))
            return
        made = member_add(tenant=obj.tenant, user=obj.user, role=obj.role, actor=acting(request))
        obj.pk, obj._state.adding = made.pk, False

    def delete_model(self, request: HttpRequest, obj: Membership) -> None:
        member_remove(membership=obj, actor=acting(request))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Membership]) -> None:
        for membership in queryset:
            member_remove(membership=membership, actor=acting(request))


@admin.register(Quota)
class QuotaAdmin(ModelAdmin):
    """All quotas side by side."""

    list_display = (
        "tenant",
        "max_domains",
        "max_hplms",
        "max_storage_bytes",
        "max_requests_per_day",
        "max_active_jobs",
    )
    list_select_related = ("tenant",)
    search_fields = ("tenant__slug",)
    readonly_fields = ("tenant",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
