"""The page of one hPLM, and what can be done to it there."""

from typing import Any

from django.http import HttpResponse
from django.views.decorators.http import require_GET, require_POST

from frontend.access import TenantRequest, tenant_page
from frontend.forms.tree import AliasForm
from frontend.pages import act, go, show
from frontend.presenters.models import curl_snippet
from frontend.presenters.versions import default_of, label_rows, lineage_of, version_rows
from frontend.refusals import attempt
from tenants.models import Role
from versiontree.models import Alias, Hplm
from versiontree.selectors import alias_moves_of, aliases_of, hplm_of, versions_of
from versiontree.services.aliases import alias_move
from versiontree.services.hplms import hplm_delete

MOVES_SHOWN = 20


@require_GET
@tenant_page()
def model(request: TenantRequest, name: str) -> HttpResponse:
    """Versions with their metrics, aliases with their history, and how a program asks."""
    hplm = hplm_of(request.place.tenant, name)
    form = AliasForm(hplm) if request.place.may_write else None
    return _page(request, hplm, form)


@require_POST
@tenant_page(Role.DEVELOPER)
def move_alias(request: TenantRequest, name: str) -> HttpResponse:
    """Point an alias at another version: promotion and rollback."""
    hplm = hplm_of(request.place.tenant, name)
    form = AliasForm(hplm, request.POST)
    moved = attempt(form, lambda: _move(request, hplm, form)) if form.is_valid() else None
    if moved is None:
        return _page(request, hplm, form)
    return go(request, "hplm", hplm.name, said=f"@{moved.name} now means version {moved.version.number}.")


@require_POST
@tenant_page(Role.DEVELOPER)
def delete(request: TenantRequest, name: str) -> HttpResponse:
    """Stop serving an hPLM and free its name."""
    hplm = hplm_of(request.place.tenant, name)
    refused = act(
        request, lambda: hplm_delete(hplm=hplm, actor=request.user), said=f"{hplm.name} is deleted."
    )
    return go(request, "hplm", hplm.name) if refused else go(request, "home")


def _move(request: TenantRequest, hplm: Hplm, form: AliasForm) -> Alias:
    cleaned = form.cleaned_data
    return alias_move(
        hplm=hplm,
        name=cleaned["name"],
        version=cleaned["version"],
        reason=cleaned["reason"],
        actor=request.user,
    )


def _page(request: TenantRequest, hplm: Hplm, form: AliasForm | None) -> HttpResponse:
    versions = list(versions_of(hplm).prefetch_related("aliases", "jobs"))
    aliases = list(aliases_of(hplm))
    context: dict[str, Any] = {
        "model": hplm,
        "ready": bool(aliases),
        "lineage": lineage_of(versions[-1]),
        "labels": versions[0].config.get("labels", []),
        "versions": version_rows(versions),
        "aliases": aliases,
        "moves": alias_moves_of(hplm)[:MOVES_SHOWN],
        "per_label": label_rows(default_of(versions)),
        "curl": curl_snippet(request, hplm),
        "form": form,
    }
    return show(request, "hplms/hplm.html", **context)
