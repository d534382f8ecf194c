"""Uploading: check a file and see what was found, then store it.

The file stays in the browser between the two steps, so nothing half-uploaded is ever kept.
"""

from django.http import HttpResponse
from django.views.decorators.http import require_http_methods, require_POST

from frontend.access import TenantRequest, tenant_page
from frontend.forms.data import CorpusForm, DatasetForm
from frontend.pages import go, show
from frontend.presenters.data import dataset_context, preview_rows
from frontend.refusals import attempt
from tenants.models import Corpus, Dataset, Role
from tenants.services.corpora import corpus_preview, corpus_upload
from tenants.services.datasets import dataset_preview, dataset_upload


@require_http_methods(["GET", "POST"])
@tenant_page(Role.DEVELOPER)
def corpus_new(request: TenantRequest) -> HttpResponse:
    """The form of a corpus; POST stores it."""
    form = CorpusForm(request.POST or None, request.FILES or None)
    stored = attempt(form, lambda: _corpus_store(request, form)) if form.is_valid() else None
    if stored is None:
        return show(request, "data/corpus_new.html", form=form)
    return go(request, "corpus", stored.pk, said=f"The corpus {stored.name} is stored.")


@require_POST
@tenant_page(Role.DEVELOPER)
def corpus_check(request: TenantRequest) -> HttpResponse:
    """What is in the file: counts, first rows, warnings, or what is wrong with it. Nothing is stored."""
    form = CorpusForm(request.POST, request.FILES)
    found = attempt(form, lambda: corpus_preview(**form.upload())) if form.is_valid() else None
    if found is None:
        return show(request, "data/refused.html", form=form)
    return show(request, "data/corpus_found.html", **found)


@require_http_methods(["GET", "POST"])
@tenant_page(Role.DEVELOPER)
def dataset_new(request: TenantRequest) -> HttpResponse:
    """The form of a dataset; POST stores it."""
    form = DatasetForm(request.POST or None, request.FILES or None)
    stored = attempt(form, lambda: _dataset_store(request, form)) if form.is_valid() else None
    if stored is None:
        return show(request, "data/dataset_new.html", form=form)
    return go(request, "dataset", stored.pk, said=f"The dataset {stored.name} is stored.")


@require_POST
@tenant_page(Role.DEVELOPER)
def dataset_check(request: TenantRequest) -> HttpResponse:
    """What is in the files: counts, labels, first rows, warnings; or what is wrong. Nothing is stored."""
    form = DatasetForm(request.POST, request.FILES)
    found = attempt(form, lambda: dataset_preview(**form.upload())) if form.is_valid() else None
    if found is None:
        return show(request, "data/refused.html", form=form)
    rows = preview_rows(found["rows"])
    return show(request, "data/dataset_found.html", rows=rows, **dataset_context(found["report"]))


def _corpus_store(request: TenantRequest, form: CorpusForm) -> Corpus:
    name = form.cleaned_data["name"]
    return corpus_upload(tenant=request.place.tenant, name=name, actor=request.user, **form.upload())


def _dataset_store(request: TenantRequest, form: DatasetForm) -> Dataset:
    name = form.cleaned_data["name"]
    return dataset_upload(tenant=request.place.tenant, name=name, actor=request.user, **form.upload())
