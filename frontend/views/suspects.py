"""Labels of a dataset that look wrong to its quick version, and their corrections."""

from django.http import HttpResponse
from django.views.decorators.http import require_GET, require_POST

from frontend.access import TenantRequest, tenant_member_required
from frontend.forms.suspects import Choice, CorrectionsForm
from frontend.presenters.suspects import suspect_rows
from frontend.shortcuts import redirect_to, render_page, submit_form
from tenants.accounts.models import Role
from tenants.datasets.formats.corrections import LABELED_TASKS
from tenants.datasets.models import Dataset
from tenants.datasets.selectors.uploads import dataset_of
from tenants.datasets.services.corrections import dataset_correct
from versiontree.tree.selectors.suspects import Suspect, suspects_of, suspects_version


@require_GET
@tenant_member_required()
def labels(request: TenantRequest, pk: int) -> HttpResponse:
    """The labels to check. With `?all=fix` every suggestion is chosen."""
    dataset = dataset_of(request.access.tenant, pk)
    suspects = _suspects(request, dataset)
    chosen = Choice.FIX if request.GET.get("all") == Choice.FIX else Choice.KEEP
    return _page(request, dataset, suspects, CorrectionsForm(dataset, suspects or (), chosen=chosen))


@require_POST
@tenant_member_required(Role.DEVELOPER)
def correct(request: TenantRequest, pk: int) -> HttpResponse:
    """Save the dataset with the chosen corrections as a new one, and show it."""
    dataset = dataset_of(request.access.tenant, pk)
    suspects = _suspects(request, dataset)
    form = CorrectionsForm(dataset, suspects or (), request.POST)
    made = submit_form(form, lambda: _correct(request, dataset, form))
    if made is None:
        return _page(request, dataset, suspects, form)
    return redirect_to(request, "dataset", made.pk, message=f"Dataset {made.name} saved.")


def _correct(request: TenantRequest, dataset: Dataset, form: CorrectionsForm) -> Dataset:
    return dataset_correct(
        dataset=dataset,
        name=form.cleaned_data["name"],
        corrections=form.corrections(),
        actor=request.user,
    )


def _suspects(request: TenantRequest, dataset: Dataset) -> list[Suspect] | None:
    """Return the suspects; None if no quick version was trained on the dataset."""
    version = suspects_version(request.access.tenant, dataset)
    return None if version is None else suspects_of(version, dataset)


def _page(
    request: TenantRequest, dataset: Dataset, suspects: list[Suspect] | None, form: CorrectionsForm
) -> HttpResponse:
    context = {
        "dataset": dataset,
        "suspects": suspect_rows(suspects or (), form),
        "searched": suspects is not None,
        "has_labels": dataset.task in LABELED_TASKS,
        "form": form,
    }
    return render_page(request, "data/labels.html", **context)
