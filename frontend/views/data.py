"""Corpora and datasets: the list and the pages of one."""

from collections.abc import Callable
from typing import Any

from django.http import HttpResponse
from django.views.decorators.http import require_GET, require_POST

from frontend.access import TenantRequest, tenant_page
from frontend.pages import act, go, page_of, show
from frontend.presenters.charts import doubling_bars
from frontend.presenters.coverage import coverage_rows, use_rows
from frontend.presenters.data import (
    corpus_rows,
    dataset_context,
    dataset_rows,
    preview_rows,
    task_of,
    upload_rows,
)
from tenants.accounts.models import Role
from tenants.base.errors import HmiError
from tenants.datasets.formats.fit import TokenizerFit, fit_warnings
from tenants.datasets.formats.tokens import TokenRow
from tenants.datasets.models import Corpus, Dataset
from tenants.datasets.selectors.previews import (
    ORDERS,
    corpus_texts_shown,
    dataset_rows_shown,
    last_checks,
    uploads_found,
)
from tenants.datasets.selectors.uploads import (
    checks_open,
    corpora_of,
    corpus_of,
    dataset_of,
    datasets_of,
    uploads_of,
)
from tenants.datasets.services.corpora import corpus_delete
from tenants.datasets.services.datasets import dataset_delete
from versiontree.tree.models import Version
from versiontree.tree.models.version import VersionKind
from versiontree.tree.selectors.coverage import coverage_ask, coverages_of, versions_made_from
from versiontree.tree.selectors.recommended_root import root_recommended
from versiontree.tree.selectors.versions import parents_ready_for, version_visible_to
from versiontree.tree.tokenizer_fit import corpus_fit, corpus_tokens, dataset_fit, dataset_tokens

USES_SHOWN = 10


@require_GET
@tenant_page()
def index(request: TenantRequest) -> HttpResponse:
    """The tenant's uploads, a page at a time in the order of `?sort=`, perhaps only those with the words of
    `?q=`."""
    tenant, words = request.place.tenant, request.GET.get("q", "").strip()
    order = request.GET.get("sort", "newest")
    datasets, corpora = (
        page_of(request, uploads_found(datasets_of(tenant), words=words, order=order)),
        page_of(request, uploads_found(corpora_of(tenant), words=words, order=order), key="corpora"),
    )
    uploads = list(uploads_of(tenant, request.user))
    rows: dict[str, Any] = {
        "datasets": dataset_rows(tenant, datasets),
        "corpora": corpus_rows(tenant, corpora),
        "uploads": upload_rows(uploads, last_checks(tenant, uploads)),
        "checks": checks_open(tenant),
    }
    rows |= {"words": words, "order": order, "orders": ORDERS}
    pages = {"datasets": datasets, "corpora": corpora}
    return show(request, "data/index.html", pages=pages, **rows)


@require_GET
@tenant_page()
def corpus(request: TenantRequest, pk: int) -> HttpResponse:
    """A corpus with its report."""
    corpus = corpus_of(request.place.tenant, pk)
    found: dict[str, Any] = {
        "texts": corpus_texts_shown(corpus),
        "report": corpus.report,
        "length_bars": doubling_bars(corpus.report.get("words_histogram", [])),
    }
    return show(request, "data/corpus.html", corpus=corpus, **found, **_about(request, corpus))


@require_GET
@tenant_page()
def dataset(request: TenantRequest, pk: int) -> HttpResponse:
    """A dataset with its report."""
    dataset = dataset_of(request.place.tenant, pk)
    context = dataset_context(dataset.report) | {"rows": preview_rows(dataset_rows_shown(dataset))}
    about = _about(request, dataset)
    return show(request, "data/dataset.html", dataset=dataset, task=task_of(dataset), **about, **context)


@require_GET
@tenant_page()
def corpus_check_fit(request: TenantRequest, pk: int) -> HttpResponse:
    """How well a root fits a corpus."""
    corpus = corpus_of(request.place.tenant, pk)
    return _fit(request, lambda root: (corpus_fit(root, corpus), corpus_tokens(root, corpus)))


@require_GET
@tenant_page()
def dataset_check_fit(request: TenantRequest, pk: int) -> HttpResponse:
    """How well a root fits a dataset."""
    dataset = dataset_of(request.place.tenant, pk)
    return _fit(request, lambda root: (dataset_fit(root, dataset), dataset_tokens(root, dataset)))


@require_GET
@tenant_page()
def corpus_coverage(request: TenantRequest, pk: int) -> HttpResponse:
    """How much of a corpus each table holds."""
    return _coverage(request, corpus_of(request.place.tenant, pk))


@require_GET
@tenant_page()
def dataset_coverage(request: TenantRequest, pk: int) -> HttpResponse:
    """How much of a dataset each table holds."""
    return _coverage(request, dataset_of(request.place.tenant, pk))


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


def _about(request: TenantRequest, upload: Corpus | Dataset) -> dict[str, Any]:
    """What the pages of both say of what can be, or was, built from it."""
    tenant = request.place.tenant
    page = page_of(request, versions_made_from(tenant, upload), USES_SHOWN, key="uses")
    measured, _ = coverages_of(tenant, upload)
    return {
        "roots": _roots(request),
        "recommended": root_recommended(tenant, measured),
        "uses": use_rows(tenant, page),
        "uses_page": page,
    }


def _roots(request: TenantRequest) -> list[Version]:
    """The roots that an upload can be held against."""
    return list(parents_ready_for(request.place.tenant).filter(kind=VersionKind.ROOT))


def _coverage(request: TenantRequest, upload: Corpus | Dataset) -> HttpResponse:
    measured, waiting = coverages_of(request.place.tenant, upload)
    if waiting:
        coverage_ask(upload)
    rows = coverage_rows(request.place.tenant, upload, measured)
    return show(request, "data/coverage.html", rows=rows, waiting=waiting, address=request.path)


def _fit(
    request: TenantRequest, check: Callable[[Version], tuple[TokenizerFit, list[TokenRow]]]
) -> HttpResponse:
    chosen = request.GET.get("root", "")
    try:
        root = version_visible_to(
            request.place.tenant, int(chosen) if chosen.isdecimal() else 0, param="root"
        )
        fit, tokens = check(root)
    except HmiError as refusal:
        return show(request, "data/fit.html", refusal=refusal)
    lengths = doubling_bars([fit.lengths[digits] for digits in range(fit.longest.bit_length() + 1)])
    found: dict[str, Any] = {"fit": fit, "tokens": tokens, "lengths": lengths, "warnings": fit_warnings(fit)}
    return show(request, "data/fit.html", root=root, **found)
