"""Members and invitations of a tenant."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from frontend.access import TenantRequest, tenant_member_required
from frontend.forms.tenant import InviteForm, RoleForm
from frontend.shortcuts import action_result, paginate, redirect_to, render_page, run_action, submit_form
from tenants.accounts.models import Invitation, Role
from tenants.accounts.selectors import invitation_of, invitations_of, member_of, members_of
from tenants.accounts.services.invitations import (
    invitation_create,
    invitation_resend,
    invitation_send_email,
    invitation_withdraw,
)
from tenants.accounts.services.members import member_remove, member_set_role


@require_GET
@tenant_member_required()
def index(request: TenantRequest) -> HttpResponse:
    """The members. Owners also see invitations and the form for a new one."""
    return _page(request, InviteForm())


@require_POST
@tenant_member_required(Role.OWNER)
def set_role(request: TenantRequest, pk: int) -> HttpResponse:
    """Change the role of a member."""
    member, form = member_of(request.access.tenant, pk), RoleForm(request.POST)
    if form.is_valid():
        role = Role(form.cleaned_data["role"])
        message = f"{member.user.get_username()} now has the role {role.label.lower()}."
        run_action(
            request,
            lambda: member_set_role(membership=member, role=role, actor=request.user),
            message=message,
        )
    return redirect_to(request, "members")


@require_POST
@tenant_member_required(Role.OWNER)
def remove(request: TenantRequest, pk: int) -> HttpResponse:
    """Remove a member; `revoke_keys` also revokes the keys that the member created."""
    member, revoke_keys = member_of(request.access.tenant, pk), bool(request.POST.get("revoke_keys"))
    run_action(
        request,
        lambda: member_remove(membership=member, actor=request.user, revoke_keys=revoke_keys),
        message=f"Removed {member.user.get_username()}.",
    )
    return redirect_to(request, "members")


@require_POST
@tenant_member_required()
def leave(request: TenantRequest) -> HttpResponse:
    """Leave the tenant."""
    membership, message = request.access.membership, f"You left {request.access.tenant.name}."
    left = run_action(
        request, lambda: member_remove(membership=membership, actor=request.user), message=message
    )
    return redirect("frontend:start") if left else redirect_to(request, "members")


@require_POST
@never_cache
@tenant_member_required(Role.OWNER)
def invite(request: TenantRequest) -> HttpResponse:
    """Create an invitation. Only this response shows its link."""
    form = InviteForm(request.POST)
    made = submit_form(form, lambda: _invite(request, form))
    return _page(request, form) if made is None else _delivered(request, made)


@require_POST
@never_cache
@tenant_member_required(Role.OWNER)
def resend(request: TenantRequest, pk: int) -> HttpResponse:
    """Replace the link of an invitation and send it again. Only this response shows it."""
    invitation = invitation_of(request.access.tenant, pk)
    made = action_result(request, lambda: invitation_resend(invitation=invitation, actor=request.user))
    return redirect_to(request, "members") if made is None else _delivered(request, made)


@require_POST
@tenant_member_required(Role.OWNER)
def withdraw(request: TenantRequest, pk: int) -> HttpResponse:
    """Withdraw an invitation, so that its link stops working."""
    invitation = invitation_of(request.access.tenant, pk)
    if invitation_withdraw(invitation=invitation, actor=request.user):
        return redirect_to(request, "members", message=f"Invitation for {invitation.email} withdrawn.")
    return redirect_to(request, "members")


def _invite(request: TenantRequest, form: InviteForm) -> tuple[Invitation, str]:
    cleaned, tenant = form.cleaned_data, request.access.tenant
    return invitation_create(tenant=tenant, email=cleaned["email"], role=cleaned["role"], actor=request.user)


def _delivered(request: TenantRequest, made: tuple[Invitation, str]) -> HttpResponse:
    invitation, token = made
    link, delivery = invitation_send_email(
        invitation=invitation, token=token, build_url=request.build_absolute_uri
    )
    return _page(request, InviteForm(), invited=invitation, link=link, delivery=delivery)


def _page(request: TenantRequest, form: InviteForm, **more: Any) -> HttpResponse:
    tenant, members = request.access.tenant, members_of(request.access.tenant)
    page = paginate(request, members)
    return render_page(
        request,
        "members/index.html",
        members=page,
        page=page,
        only_owner=members.filter(role=Role.OWNER).count() == 1,
        invitations=invitations_of(tenant) if request.access.is_owner else [],
        form=form,
        roles=Role.choices,
        **more,
    )
