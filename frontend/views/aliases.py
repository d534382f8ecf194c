"""Aliases of a model and their canaries: move, roll back, remove, start, promote and end."""

from django.contrib import messages
from django.http import HttpResponse
from django.views.decorators.http import require_POST

from frontend.access import TenantRequest, tenant_member_required
from frontend.forms.tree import AliasForm, CanaryForm, RollbackForm
from frontend.shortcuts import action_result, redirect_to, run_action, submit_form
from frontend.views.models import model_page
from tenants.accounts.models import Role
from versiontree.tree.models import Alias, Hplm
from versiontree.tree.selectors.versions import hplm_of
from versiontree.tree.services.aliases import alias_move, alias_remove, alias_roll_back
from versiontree.tree.services.canaries import canary_end, canary_promote, canary_start


@require_POST
@tenant_member_required(Role.DEVELOPER)
def move_alias(request: TenantRequest, name: str) -> HttpResponse:
    """Point an alias at another version."""
    model = hplm_of(request.access.tenant, name)
    form = AliasForm(model, request.POST)
    moved = submit_form(form, lambda: _move(request, model, form))
    if moved is None:
        return model_page(request, model, form)
    return redirect_to(
        request, "model", model.name, message=f"@{moved.name} now points to version {moved.version.number}."
    )


@require_POST
@tenant_member_required(Role.DEVELOPER)
def roll_back(request: TenantRequest, name: str, alias: str) -> HttpResponse:
    """Point an alias at the version before the one that the page showed was promoted."""
    model, form = hplm_of(request.access.tenant, name), RollbackForm(request.POST)
    if not form.is_valid():
        [message] = [error for errors in form.errors.values() for error in errors][:1]
        messages.error(request, f"@{alias} was not rolled back: {message}")
        return redirect_to(request, "model", model.name)
    given = form.cleaned_data
    done = action_result(
        request,
        lambda: alias_roll_back(
            hplm=model,
            name=alias,
            from_version=given["version"],
            reason=given["reason"],
            actor=request.user,
        ),
    )
    if done is not None:
        was = "Rolled back" if done.moved else "Somebody had rolled it back"
        text = f"@{alias} now points to version {done.alias.version.number}. {was} from version"
        messages.success(request, f"{text} {done.from_version.number}.")
    return redirect_to(request, "model", model.name)


@require_POST
@tenant_member_required(Role.DEVELOPER)
def remove_alias(request: TenantRequest, name: str, alias: str) -> HttpResponse:
    """Remove an alias. Its history is kept, with the reason."""
    model, reason = hplm_of(request.access.tenant, name), request.POST.get("reason", "").strip()
    if not reason:
        messages.error(request, f"@{alias} was not removed: a reason is required.")
        return redirect_to(request, "model", model.name)
    run_action(
        request,
        lambda: alias_remove(hplm=model, name=alias, actor=request.user, reason=reason),
        message=f"@{alias} removed.",
    )
    return redirect_to(request, "model", model.name)


@require_POST
@tenant_member_required(Role.DEVELOPER)
def start_canary(request: TenantRequest, name: str) -> HttpResponse:
    """Let a second version answer a share of the requests to an alias."""
    model = hplm_of(request.access.tenant, name)
    form = CanaryForm(model, request.POST)
    started = submit_form(form, lambda: _start_canary(request, model, form))
    if started is None:
        return model_page(request, model, AliasForm(model), form)
    message = f"The canary answers {started.canary_percent}% of the requests to @{started.name}."
    return redirect_to(request, "model", model.name, message=message)


@require_POST
@tenant_member_required(Role.DEVELOPER)
def promote_canary(request: TenantRequest, name: str, alias: str) -> HttpResponse:
    """Point an alias at its canary."""
    model = hplm_of(request.access.tenant, name)
    run_action(
        request,
        lambda: canary_promote(hplm=model, name=alias, actor=request.user),
        message=f"@{alias} now points to the version that was its canary.",
    )
    return redirect_to(request, "model", model.name)


@require_POST
@tenant_member_required(Role.DEVELOPER)
def end_canary(request: TenantRequest, name: str, alias: str) -> HttpResponse:
    """Let the alias's own version answer all requests again."""
    model = hplm_of(request.access.tenant, name)
    run_action(
        request,
        lambda: canary_end(hplm=model, name=alias, actor=request.user),
        message=f"The canary of @{alias} has ended.",
    )
    return redirect_to(request, "model", model.name)


def _move(request: TenantRequest, model: Hplm, form: AliasForm) -> Alias:
    cleaned = form.cleaned_data
    return alias_move(
        hplm=model,
        name=cleaned["name"],
        version=cleaned["version"],
        reason=cleaned["reason"],
        actor=request.user,
    )


def _start_canary(request: TenantRequest, model: Hplm, form: CanaryForm) -> Alias:
    cleaned = form.cleaned_data
    return canary_start(
        hplm=model,
        name=cleaned["alias"],
        version=cleaned["version"],
        percent=cleaned["percent"],
        actor=request.user,
    )
