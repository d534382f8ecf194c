"""The admin pages of tenants, with usage and quota."""

from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.db.models import Count, OuterRef, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.html import format_html

from frontend.presenters.limits import limits_of
from frontend.tenant_view import start_view
from hmi_site.dashboard.navigation import list_item
from tenants.accounts.admin.people import TenantAdmin
from tenants.accounts.models import Tenant
from tenants.base.admin.base import changelist_link, staff_user
from tenants.base.errors import HmiError
from tenants.usage.models import UsageSum
from versiontree.transfer.models import Takeout
from versiontree.transfer.services.takeouts import takeout_request
from versiontree.tree.models import Hplm

LISTS: Final = (
    *("tree.Hplm", "tree.Domain", "jobs.Job", "accounts.ApiKey", "accounts.Membership"),
    *("datasets.Corpus", "datasets.Dataset", "usage.UsageDay", "audit.AuditEvent"),
)
"""Models whose change lists the page links to, filtered by the tenant."""


class TenantUsageAdmin(TenantAdmin):
    """Adds usage, quota, the takeout of all data, and the view of the tenant's pages."""

    change_form_before_template = "hmi_site/tenant.html"
    actions = ("open_pages", "suspend", "resume", "take_out", "delete_data")
    page_actions = actions

    def available_actions(self, row: Any) -> tuple[str, ...]:
        *others, last = super().available_actions(row) or ("",)
        return ("open_pages", *others, "take_out", last) if last else ()

    @admin.action(description="Open as this tenant", permissions=["change"])
    def open_pages(self, request: HttpRequest, tenants: QuerySet[Tenant]) -> HttpResponse | None:
        """Open the tenant's pages, read-only for an hour."""
        if tenants.count() != 1:
            self.message_user(request, "Select one tenant to open.", messages.WARNING)
            return None
        tenant = tenants.get()
        try:
            start_view(request, tenant, staff_user(request))
        except HmiError as error:
            self.message_user(request, error.message, messages.ERROR)
            return None
        return redirect("frontend:home", tenant.slug)

    @admin.action(description="Export all data", permissions=["change"])
    def take_out(self, request: HttpRequest, tenants: QuerySet[Tenant]) -> None:
        """Start a takeout of each tenant."""
        for tenant in tenants:
            request_takeout = partial(takeout_request, tenant=tenant, actor=staff_user(request))
            link = changelist_link(Takeout, f"q={tenant}", "Data exports")
            self.try_action(
                request,
                request_takeout,
                format_html("All data of {} is being exported: see {}.", tenant, link),
            )

    def get_list_display(self, request: HttpRequest) -> Any:
        slug, name, status, *more = self.list_display
        return [slug, name, status, "hplm_count", "requests", *more]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        month = datetime.now(UTC).date().replace(day=1)
        hplms = Hplm.unscoped.filter(tenant=OuterRef("pk"), deleted_at=None).order_by().values("tenant")
        used = UsageSum.unscoped.filter(tenant=OuterRef("pk"), day__gte=month).order_by().values("tenant")
        tenants: QuerySet[Any] = super().get_queryset(request)
        counted: QuerySet[Any] = tenants.annotate(
            hplm_count=Coalesce(Subquery(hplms.annotate(n=Count("pk")).values("n")), 0),
            requests=Coalesce(Subquery(used.annotate(n=Sum("requests")).values("n")), 0),
        )
        return counted

    @admin.display(description="Models", ordering="hplm_count")
    def hplm_count(self, tenant: Any) -> str:
        """The number of the tenant's models."""
        return f"{tenant.hplm_count:,}"

    @admin.display(description="Requests this month", ordering="requests")
    def requests(self, tenant: Any) -> str:
        """Requests in this month (UTC)."""
        return f"{tenant.requests:,}"

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        tenant = self.get_object(request, unquote(object_id))
        usage = {"limits": limits_of(tenant), "lists": _lists(request, tenant.pk)} if tenant else {}
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **usage})


def _lists(request: HttpRequest, tenant: int) -> list[tuple[str, str]]:
    items = [item for name in LISTS if (item := list_item(request, name))]
    return [(item["title"], f"{item['link']}?tenant__id__exact={tenant}") for item in items]
