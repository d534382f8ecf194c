"""Deletion of what was ticked in a list: models, datasets and corpora."""

from collections.abc import Callable, Iterable

from django.contrib import messages
from django.http import HttpResponse
from django.views.decorators.http import require_POST

from frontend.access import TenantRequest, tenant_member_required
from frontend.shortcuts import redirect_to
from tenants.accounts.models import Role
from tenants.base.errors import HmiError
from tenants.base.plurals import counted
from tenants.base.row_ids import row_id
from tenants.datasets.selectors.uploads import corpus_of, dataset_of
from tenants.datasets.services.corpora import corpus_delete
from tenants.datasets.services.datasets import dataset_delete
from versiontree.tree.selectors.versions import hplm_of
from versiontree.tree.services.hplms import hplm_delete


@require_POST
@tenant_member_required(Role.DEVELOPER)
def delete_models(request: TenantRequest) -> HttpResponse:
    """Delete the chosen models. Those with active jobs stay, and the page says so."""
    tenant, user = request.access.tenant, request.user
    names = request.POST.getlist("chosen")
    _delete_each(request, names, lambda name: hplm_delete(hplm=hplm_of(tenant, name), actor=user), "model")
    return redirect_to(request, "models")


@require_POST
@tenant_member_required(Role.DEVELOPER)
def delete_data(request: TenantRequest) -> HttpResponse:
    """Delete the chosen datasets and corpora. Those that versions were trained on stay, and the page says
    so."""
    tenant, user = request.access.tenant, request.user

    def delete(key: str) -> None:
        kind, _, number = key.partition(":")
        pk = row_id(number)
        if kind == "corpus":
            corpus_delete(corpus=corpus_of(tenant, pk), actor=user)
        else:
            dataset_delete(dataset=dataset_of(tenant, pk), actor=user)

    _delete_each(request, request.POST.getlist("chosen"), delete, "file")
    return redirect_to(request, "data")


def _delete_each(
    request: TenantRequest, chosen: Iterable[str], delete: Callable[[str], None], what: str
) -> None:
    """Delete each by itself; one that cannot be deleted does not keep the others."""
    deleted = 0
    for key in dict.fromkeys(chosen):
        try:
            delete(key)
        except HmiError as error:
            messages.error(request, error.message)
        else:
            deleted += 1
    if deleted:
        messages.success(request, f"{counted(deleted, what)} deleted.")
