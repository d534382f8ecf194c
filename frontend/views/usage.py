"""Usage and limits of a tenant."""

from collections.abc import Iterable
from itertools import chain, islice
from typing import Any

from django.conf import settings
from django.http import HttpResponse, HttpResponseBase
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from frontend.access import TenantRequest, tenant_member_required
from frontend.downloads import csv_stream_response
from frontend.forms.usage import UsageForm
from frontend.presenters.limits import limits_of
from frontend.presenters.usage import requests_chart, share_bars, usage_row, usage_sum, usage_tiles
from frontend.shortcuts import paginate, render_page
from tenants.accounts.models import Tenant
from tenants.accounts.selectors import api_keys_of
from tenants.usage.selectors import ALL_USAGE, UsageBy, most_requests, usage_batches, usage_by

BUSIEST_SHOWN = 10
KEYS_OFFERED = 200
BY = {UsageBy.DAY: ("Day", "days"), UsageBy.MODEL: ("Model", "Models"), UsageBy.KEY: ("API key", "keys")}
COLUMNS = (
    *("day", "model", "key", "requests", "failed", "texts", "tokens", "generated_tokens", "machine_ms"),
    "refused",
)
READ = (
    *("day", "model_name", "key_prefix", "requests", "failed", "inputs", "tokens", "generated_tokens"),
    *("busy_ms", "refused"),
)
LINES_PER_CHUNK = 1_000


@require_GET
@never_cache
@tenant_member_required()
def page(request: TenantRequest) -> HttpResponse:
    """Usage in a period by day, model or key, with filters; and the limits."""
    tenant = request.access.tenant
    form = _form(request)
    since, until = form.span()
    by, of = _by(request), form.filter()
    days = list(usage_by(tenant, UsageBy.DAY, since, until, filters=of))
    total = usage_sum(days)
    top = {
        one: most_requests(tenant, one, since, until, limit=None if one == by else BUSIEST_SHOWN, filters=of)
        for one in (UsageBy.MODEL, UsageBy.KEY)
    }
    rows = paginate(request, days if by == UsageBy.DAY else list(top[by]))
    listed = list(rows.object_list)
    shown = listed if by == UsageBy.DAY else usage_by(tenant, by, since, until, names=listed, filters=of)
    models, keys = (dict(islice(found.items(), BUSIEST_SHOWN)) for found in top.values())
    names = _key_names(tenant, {*keys, *(listed if by == UsageBy.KEY else ())})
    context: dict[str, Any] = {
        "form": form,
        "narrowed": of != ALL_USAGE,
        "model_names": list(models),
        "since": since,
        "until": until,
        "by": by,
        "by_label": BY[by][0],
        "by_plural": BY[by][1],
        "choices_by": [(one, label) for one, (label, _) in BY.items()],
        "tiles": usage_tiles(total),
        "chart": requests_chart(days, since, until),
        "models": share_bars(models, UsageBy.MODEL, {}, total["requests"]),
        "keys": share_bars(keys, UsageBy.KEY, names, total["requests"]),
        "rows": [usage_row(row, by, names) for row in shown],
        "page": rows,
        "limits": limits_of(tenant),
        "contact": settings.HMI_CONTACT,
    }
    return render_page(request, "usage/page.html", **context)


@require_GET
@tenant_member_required()
def rows_csv(request: TenantRequest) -> HttpResponseBase:
    """Download the usage in the period: a line per day, model and key."""
    tenant = request.access.tenant
    form = _form(request)
    since, until = form.span()
    parts = usage_batches(tenant, since, until, READ, batch_size=LINES_PER_CHUNK, filters=form.filter())
    name = f"usage-{tenant.slug}-{since}-{until}.csv"
    return csv_stream_response(name, COLUMNS, chain.from_iterable(parts))


def _form(request: TenantRequest) -> UsageForm:
    keys = api_keys_of(request.access.tenant).values_list("prefix", "name")
    return UsageForm(request.GET, dict(keys[:KEYS_OFFERED]))


def _by(request: TenantRequest) -> UsageBy:
    by = request.GET.get("by", "")
    return UsageBy(by) if by in list(UsageBy) else UsageBy.DAY


def _key_names(tenant: Tenant, prefixes: Iterable[str]) -> dict[str, str]:
    return dict(api_keys_of(tenant).filter(prefix__in=prefixes).values_list("prefix", "name"))
