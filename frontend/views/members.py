"""Who belongs to a tenant, and who is invited to."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from frontend.access import TenantRequest, tenant_page
from frontend.forms.tenant import InviteForm, RoleForm
from frontend.pages import act, attempt, go, page_of, show
from frontend.presenters.members import invitation_rows, member_rows
from tenants.accounts.models import Invitation, Role
from tenants.accounts.selectors import invitation_of, invitations_of, member_of, members_of
from tenants.accounts.services.invitations import (
    invitation_create,
    invitation_deliver,
    invitation_resend,
    invitation_withdraw,
)
from tenants.accounts.services.members import member_remove, member_set_role

Made = tuple[Invitation, str]


@require_GET
@tenant_page()
def index(request: TenantRequest) -> HttpResponse:
    """The members; to owners also the invitations and a form for another."""
    return _page(request, InviteForm())


@require_POST
@tenant_page(Role.OWNER)
def set_role(request: TenantRequest, pk: int) -> HttpResponse:
    """Give a member another role."""
    member, form = member_of(request.place.tenant, pk), RoleForm(request.POST)
    if form.is_valid():
        role = Role(form.cleaned_data["role"])
        said = f"{member.user.get_username()} is {role.label.lower()} from now on."
        act(request, lambda: member_set_role(membership=member, role=role, actor=request.user), said=said)
    return go(request, "members")


@require_POST
@tenant_page(Role.OWNER)
def remove(request: TenantRequest, pk: int) -> HttpResponse:
    """End a membership, and perhaps the keys that the member made."""
    member, revoke_keys = member_of(request.place.tenant, pk), bool(request.POST.get("revoke_keys"))
    said = f"{member.user.get_username()} is no member any more."

    def end() -> None:
        member_remove(membership=member, actor=request.user, revoke_keys=revoke_keys)

    act(request, end, said=said)
    return go(request, "members")


@require_POST
@tenant_page()
def leave(request: TenantRequest) -> HttpResponse:
    """End one's own membership."""
    membership, said = request.place.membership, f"You have left {request.place.tenant.name}."
    refused = act(request, lambda: member_remove(membership=membership, actor=request.user), said=said)
    return go(request, "members") if refused else redirect("frontend:start")


@require_POST
@never_cache
@tenant_page(Role.OWNER)
def invite(request: TenantRequest) -> HttpResponse:
    """Invite somebody; this one answer shows the link."""
    form = InviteForm(request.POST)
    made = attempt(form, lambda: _invite(request, form)) if form.is_valid() else None
    return _page(request, form) if made is None else _delivered(request, made)


@require_POST
@never_cache
@tenant_page(Role.OWNER)
def resend(request: TenantRequest, pk: int) -> HttpResponse:
    """Send another link in the place of the one before; this one answer shows it."""
    invitation, made = invitation_of(request.place.tenant, pk), list[Made]()

    def send() -> None:
        made.append(invitation_resend(invitation=invitation, actor=request.user))

    return go(request, "members") if act(request, send) else _delivered(request, made[0])


@require_POST
@tenant_page(Role.OWNER)
def withdraw(request: TenantRequest, pk: int) -> HttpResponse:
    """End the link of an invitation."""
    invitation = invitation_of(request.place.tenant, pk)
    if invitation_withdraw(invitation=invitation, actor=request.user):
        return go(request, "members", said=f"The invitation of {invitation.email} is withdrawn.")
    return go(request, "members")


def _invite(request: TenantRequest, form: InviteForm) -> Made:
    cleaned, tenant = form.cleaned_data, request.place.tenant
    return invitation_create(tenant=tenant, email=cleaned["email"], role=cleaned["role"], actor=request.user)


def _delivered(request: TenantRequest, made: Made) -> HttpResponse:
    invitation, token = made
    link, delivery = invitation_deliver(invitation=invitation, token=token, site=request.build_absolute_uri)
    return _page(request, InviteForm(), invited=invitation, link=link, delivery=delivery)


def _page(request: TenantRequest, form: InviteForm, **more: Any) -> HttpResponse:
    tenant, members = request.place.tenant, members_of(request.place.tenant)
    page = page_of(request, members)
    owners = members.filter(role=Role.OWNER).count()
    invitations = invitation_rows(invitations_of(tenant)) if request.place.owns else []
    return show(
        request,
        "members/index.html",
        members=member_rows(page, request.user, owners),
        page=page,
        invitations=invitations,
        form=form,
        roles=Role.choices,
        **more,
    )
