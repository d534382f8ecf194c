"""Labels of a dataset that look wrong to its quick version, and their corrections."""

from django.http import HttpResponse
from django.views.decorators.http import require_GET, require_POST

from frontend.access import TenantRequest, tenant_member_required
from frontend.forms.label_checks import Choice, CorrectionsForm
from frontend.presenters.label_checks import suspect_rows
from frontend.shortcuts import render_page, submit_form
from frontend.views.dataset_rows import MODELS_OFFERED, saved
from tenants.accounts.models import Role
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.formats.corrections import LABELED_TASKS
from tenants.datasets.models import Dataset
from tenants.datasets.selectors.uploads import dataset_of
from tenants.datasets.services.corrections import dataset_correct
from versiontree.tree.models import Version
from versiontree.tree.selectors.label_checks import (
    Suspect,
    hplms_trained_on,
    suspects_of,
    suspects_version,
)


@require_GET
@tenant_member_required()
def labels(request: TenantRequest, pk: int) -> HttpResponse:
    """The labels to check. With `?all=fix` every suggestion is chosen."""
    dataset = dataset_of(request.access.tenant, pk)
    version = suspects_version(request.access.tenant, dataset)
    suspects = suspects_of(version, dataset) if version else []
    chosen = Choice.FIX if request.GET.get("all") == Choice.FIX else Choice.KEEP
    return _page(request, dataset, version, suspects, CorrectionsForm(dataset, suspects, chosen=chosen))


@require_POST
@tenant_member_required(Role.DEVELOPER)
def correct(request: TenantRequest, pk: int) -> HttpResponse:
    """Save the dataset with the chosen corrections as a new one, and show it."""
    dataset = dataset_of(request.access.tenant, pk)
    version = suspects_version(request.access.tenant, dataset)
    suspects = suspects_of(version, dataset) if version else []
    form = CorrectionsForm(dataset, suspects, request.POST)
    made = submit_form(form, lambda: _correct(request, dataset, version, form))
    if made is None:
        return _page(request, dataset, version, suspects, form)
    return saved(request, made)


def _correct(
    request: TenantRequest, dataset: Dataset, version: Version | None, form: CorrectionsForm
) -> Dataset:
    if version is not None and request.POST.get("version", str(version.pk)) != str(version.pk):
        message = "A newer quick version has checked the labels. Look at your choices again."
        raise HmiError(ErrorCode.CONFLICT, message)
    return dataset_correct(
        dataset=dataset,
        name=form.cleaned_data["name"],
        corrections=form.corrections(),
        actor=request.user,
    )


def _page(
    request: TenantRequest,
    dataset: Dataset,
    version: Version | None,
    suspects: list[Suspect],
    form: CorrectionsForm,
) -> HttpResponse:
    return render_page(
        request,
        "data/labels.html",
        dataset=dataset,
        version=version,
        suspects=suspect_rows(suspects, form),
        has_labels=dataset.task in LABELED_TASKS,
        models=hplms_trained_on(request.access.tenant, dataset.pk)[:MODELS_OFFERED],
        form=form,
    )
