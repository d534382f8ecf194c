"""Corpora and datasets: the list and the pages of one."""

from collections.abc import Callable

from django.http import HttpResponse
from django.views.decorators.http import require_GET, require_POST

from frontend.access import TenantRequest, tenant_page
from frontend.pages import act, go, show
from frontend.presenters.data import corpus_rows, dataset_context, dataset_rows, task_of
from tenants.errors import HmiError
from tenants.formats.fit import Fit, fit_warnings
from tenants.models import Role
from tenants.selectors import corpora_of, corpus_of, dataset_of, datasets_of
from tenants.services.corpora import corpus_delete
from tenants.services.datasets import dataset_delete
from versiontree.fitting import corpus_fit, dataset_fit
from versiontree.models import Version
from versiontree.models.version import VersionKind
from versiontree.selectors import parents_ready_for, version_visible_to


@require_GET
@tenant_page()
def index(request: TenantRequest) -> HttpResponse:
    """All uploads of the tenant."""
    tenant = request.place.tenant
    datasets, corpora = dataset_rows(tenant, datasets_of(tenant)), corpus_rows(tenant, corpora_of(tenant))
    return show(request, "data/index.html", datasets=datasets, corpora=corpora)


@require_GET
@tenant_page()
def corpus(request: TenantRequest, pk: int) -> HttpResponse:
    """A corpus with its report."""
    corpus = corpus_of(request.place.tenant, pk)
    return show(request, "data/corpus.html", corpus=corpus, report=corpus.report, roots=_roots(request))


@require_GET
@tenant_page()
def dataset(request: TenantRequest, pk: int) -> HttpResponse:
    """A dataset with its report."""
    dataset = dataset_of(request.place.tenant, pk)
    context = dataset_context(dataset.report)
    return show(
        request, "data/dataset.html", dataset=dataset, task=task_of(dataset), roots=_roots(request), **context
    )


@require_GET
@tenant_page()
def corpus_check_fit(request: TenantRequest, pk: int) -> HttpResponse:
    """How well a root fits a corpus."""
    corpus = corpus_of(request.place.tenant, pk)
    return _fit(request, lambda root: corpus_fit(root, corpus))


@require_GET
@tenant_page()
def dataset_check_fit(request: TenantRequest, pk: int) -> HttpResponse:
    """How well a root fits a dataset."""
    dataset = dataset_of(request.place.tenant, pk)
    return _fit(request, lambda root: dataset_fit(root, dataset))


@require_POST
@tenant_page(Role.DEVELOPER)
def corpus_remove(request: TenantRequest, pk: int) -> HttpResponse:
    """Delete a corpus that nothing was made from."""
    corpus = corpus_of(request.place.tenant, pk)
    said = f"The corpus {corpus.name} is deleted."
    refused = act(request, lambda: corpus_delete(corpus=corpus, actor=request.user), said=said)
    return go(request, "corpus", pk) if refused else go(request, "data")


@require_POST
@tenant_page(Role.DEVELOPER)
def dataset_remove(request: TenantRequest, pk: int) -> HttpResponse:
    """Delete a dataset that nothing was made from."""
    dataset = dataset_of(request.place.tenant, pk)
    said = f"The dataset {dataset.name} is deleted."
    refused = act(request, lambda: dataset_delete(dataset=dataset, actor=request.user), said=said)
    return go(request, "dataset", pk) if refused else go(request, "data")


def _roots(request: TenantRequest) -> list[Version]:
    """The roots that an upload can be held against."""
    return list(parents_ready_for(request.place.tenant).filter(kind=VersionKind.ROOT))


def _fit(request: TenantRequest, check: Callable[[Version], Fit]) -> HttpResponse:
    chosen = request.GET.get("root", "")
    try:
        root = version_visible_to(
            request.place.tenant, int(chosen) if chosen.isdecimal() else 0, param="root"
        )
        fit = check(root)
    except HmiError as refusal:
        return show(request, "data/fit.html", refusal=refusal)
    return show(request, "data/fit.html", root=root, fit=fit, warnings=fit_warnings(fit))
