"""API keys, and calls of a model with them."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

from django.contrib import messages
from django.http import HttpResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from frontend.access import TenantRequest, tenant_member_required
from frontend.forms.tenant import DEFAULT_OVERLAP, OVERLAPS, KeyForm, RotateForm
from frontend.presenters.sample_calls import call_with_key, sample_calls
from frontend.shortcuts import action_result, redirect_to, render_page, submit_form
from tenants.accounts.models import Role, Tenant
from tenants.accounts.selectors import api_key_of, api_keys_active, api_keys_ended
from tenants.accounts.services.api_keys import api_key_create, api_key_revoke, api_key_rotate
from tenants.base.errors import HmiError
from tenants.usage.selectors import last_model_used
from versiontree.tree.selectors.callable_hplms import (
    CallableHplm,
    callable_bases,
    callable_hplm,
    callable_hplms,
)

ENDED_SHOWN = timedelta(days=30)


@require_GET
@tenant_member_required()
def index(request: TenantRequest) -> HttpResponse:
    """Active keys, recently ended keys, the form for a new key, and calls of the model in the query."""
    return _page(request, KeyForm())


@require_POST
@never_cache
@tenant_member_required(Role.OWNER)
def create(request: TenantRequest) -> HttpResponse:
    """Create a key. Only this response shows its plaintext."""
    form = KeyForm(request.POST)
    made = submit_form(form, lambda: _create(request, form))
    if made is None:
        return _page(request, form)
    return _page(request, KeyForm(), plaintext=made)


@require_POST
@never_cache
@tenant_member_required(Role.OWNER)
def rotate(request: TenantRequest, prefix: str) -> HttpResponse:
    """Replace a key by a new one. Only this response shows its plaintext."""
    key, form = api_key_of(request.access.tenant, prefix), RotateForm(request.POST)
    if not form.is_valid():
        messages.error(request, "Choose how long the old key stays valid.")
        return redirect_to(request, "keys")
    made = action_result(
        request, lambda: api_key_rotate(api_key=key, overlap=form.overlap_time(), actor=request.user)
    )
    if made is None:
        return redirect_to(request, "keys")
    return _page(request, KeyForm(), plaintext=made[1], old=key.prefix)


@require_POST
@tenant_member_required(Role.OWNER)
def revoke(request: TenantRequest, prefix: str) -> HttpResponse:
    """Revoke a key permanently."""
    api_key_revoke(api_key=api_key_of(request.access.tenant, prefix), actor=request.user)
    return redirect_to(request, "keys", message="API key revoked.")


def _create(request: TenantRequest, form: KeyForm) -> str:
    _, plaintext = api_key_create(
        tenant=request.access.tenant,
        name=form.cleaned_data["name"],
        scopes=form.cleaned_data["scopes"],
        created_by=request.user,
        expires_at=form.expires_at(),
        requests_per_minute=form.cleaned_data["requests_per_minute"],
        tokens_per_minute=form.cleaned_data["tokens_per_minute"],
    )
    return plaintext


def _page(request: TenantRequest, form: KeyForm, plaintext: str = "", old: str = "") -> HttpResponse:
    tenant, access = request.access.tenant, request.access
    offers = [*callable_hplms(tenant), *callable_bases(tenant)]
    chosen, refusal = _chosen(tenant, request.GET.get("model", "").strip(), offers)
    return render_page(
        request,
        "keys/index.html",
        keys=api_keys_active(tenant) if access.can_write else [],
        ended=api_keys_ended(tenant, timezone.now() - ENDED_SHOWN) if access.can_write else [],
        form=form,
        plaintext=plaintext,
        call=call_with_key(request, tenant, chosen, plaintext) if plaintext and chosen else "",
        old=old,
        overlaps=OVERLAPS,
        default_overlap=DEFAULT_OVERLAP,
        offers=offers,
        chosen=chosen,
        refusal=refusal,
        calls=sample_calls(request, tenant, chosen) if chosen else [],
        base_url=request.build_absolute_uri("/").rstrip("/"),
    )


def _chosen(tenant: Tenant, asked: str, offers: Sequence[CallableHplm]) -> tuple[CallableHplm | None, str]:
    """The model to call: the one that was asked for, else the last one that was used, else the first. And why
    the one that was asked for cannot be called."""
    refusal = ""
    if asked:
        try:
            return callable_hplm(tenant, asked), ""
        except HmiError as error:
            refusal = error.message
    if used := last_model_used(tenant):
        with suppress(HmiError):  # deleted since
            return callable_hplm(tenant, used), refusal
    return (offers[0] if offers else None), refusal
