"""Corpora and datasets: the list, their pages and tokenizer fit."""

from collections.abc import Callable
from functools import partial
from typing import Any

from django.http import HttpResponse
from django.views.decorators.http import require_GET, require_POST

from frontend.access import TenantRequest, tenant_member_required
from frontend.presenters.charts import doubling_bars
from frontend.presenters.data import (
    corpus_rows,
    dataset_context,
    dataset_rows,
    preview_rows,
    task_of,
    upload_rows,
)
from frontend.presenters.label_checks import corrected_note
from frontend.shortcuts import paginate, redirect_to, render_page, run_action
from tenants.accounts.models import Role
from tenants.base.errors import HmiError
from tenants.base.row_ids import row_id
from tenants.datasets.models import Corpus, Dataset
from tenants.datasets.selectors.previews import (
    ORDERS,
    corpus_sample,
    dataset_sample,
    latest_checks,
    search_by_name,
)
from tenants.datasets.selectors.uploads import (
    checks_open,
    corpora_of,
    corpus_of,
    dataset_of,
    datasets_of,
    uploads_of,
)
from tenants.datasets.services.corpora import corpus_delete, corpus_rename
from tenants.datasets.services.datasets import dataset_delete, dataset_rename
from versiontree.tree.models import RootKind, Version
from versiontree.tree.models.version import VersionKind
from versiontree.tree.selectors.coverage import coverages_of, versions_built_from
from versiontree.tree.selectors.label_checks import hplms_trained_on, suspects_count, suspects_version
from versiontree.tree.selectors.recommended_root import root_recommended
from versiontree.tree.selectors.versions import parents_ready_for, root_kind_of, version_visible_to
from versiontree.tree.tokenized_rows import TokenizerFit, TokenRow, fit_warnings
from versiontree.tree.tokenizer_fit import corpus_fit, corpus_tokens, dataset_fit, dataset_tokens

USES_SHOWN = 10
UPDATES_OFFERED = 3


@require_GET
@tenant_member_required()
def index(request: TenantRequest) -> HttpResponse:
    """The list of datasets and corpora, with search (`?q=`) and order (`?sort=`)."""
    tenant, words = request.access.tenant, request.GET.get("q", "").strip()
    order = request.GET.get("sort", "newest")
    datasets, corpora = (
        paginate(request, search_by_name(datasets_of(tenant), words=words, order=order)),
        paginate(request, search_by_name(corpora_of(tenant), words=words, order=order), key="corpora"),
    )
    uploads = list(uploads_of(tenant, request.user))
    rows: dict[str, Any] = {
        "datasets": dataset_rows(tenant, datasets),
        "corpora": corpus_rows(tenant, corpora),
        "uploads": upload_rows(uploads, latest_checks(tenant, uploads)),
        "checks": checks_open(tenant),
    }
    rows |= {"words": words, "order": order, "orders": ORDERS}
    pages = {"datasets": datasets, "corpora": corpora}
    return render_page(request, "data/index.html", pages=pages, **rows)


@require_GET
@tenant_member_required()
def corpus(request: TenantRequest, pk: int) -> HttpResponse:
    """The page of a corpus."""
    corpus = corpus_of(request.access.tenant, pk)
    found: dict[str, Any] = {
        "texts": corpus_sample(corpus),
        "report": corpus.report,
        "length_bars": doubling_bars(corpus.report.get("words_histogram", [])),
    }
    return render_page(
        request, "data/corpus.html", corpus=corpus, **found, **_shared_context(request, corpus)
    )


@require_GET
@tenant_member_required()
def dataset(request: TenantRequest, pk: int) -> HttpResponse:
    """The page of a dataset."""
    dataset = dataset_of(request.access.tenant, pk)
    context = dataset_context(dataset.report) | {"rows": preview_rows(dataset_sample(dataset))}
    version, corrected = suspects_version(request.access.tenant, dataset), corrected_note(dataset)
    context |= {
        "suspects": version and suspects_count(version),
        "corrected": corrected,
        "models": hplms_trained_on(request.access.tenant, corrected["id"])[:UPDATES_OFFERED]
        if corrected
        else [],
    }
    shared = _shared_context(request, dataset)
    return render_page(
        request, "data/dataset.html", dataset=dataset, task=task_of(dataset), **shared, **context
    )


@require_GET
@tenant_member_required()
def corpus_tokenizer_fit(request: TenantRequest, pk: int) -> HttpResponse:
    """How well the tokenizer of a root fits a corpus."""
    corpus = corpus_of(request.access.tenant, pk)
    return _fit(request, lambda root: (corpus_fit(root, corpus), corpus_tokens(root, corpus)))


@require_GET
@tenant_member_required()
def dataset_tokenizer_fit(request: TenantRequest, pk: int) -> HttpResponse:
    """How well the tokenizer of a root fits a dataset."""
    dataset = dataset_of(request.access.tenant, pk)
    return _fit(request, lambda root: (dataset_fit(root, dataset), dataset_tokens(root, dataset)))


@require_POST
@tenant_member_required(Role.DEVELOPER)
def delete_corpus(request: TenantRequest, pk: int) -> HttpResponse:
    """Delete a corpus that no version was trained on."""
    corpus = corpus_of(request.access.tenant, pk)
    message = f"Corpus {corpus.name} deleted."
    deleted = run_action(request, lambda: corpus_delete(corpus=corpus, actor=request.user), message=message)
    return redirect_to(request, "data") if deleted else redirect_to(request, "corpus", pk)


@require_POST
@tenant_member_required(Role.DEVELOPER)
def rename_corpus(request: TenantRequest, pk: int) -> HttpResponse:
    """Give a corpus another name."""
    corpus, name = corpus_of(request.access.tenant, pk), request.POST.get("name", "")
    rename = partial(corpus_rename, corpus=corpus, name=name, actor=request.user)
    run_action(request, rename, message="Corpus renamed.")
    return redirect_to(request, "corpus", pk)


@require_POST
@tenant_member_required(Role.DEVELOPER)
def rename_dataset(request: TenantRequest, pk: int) -> HttpResponse:
    """Give a dataset another name."""
    dataset, name = dataset_of(request.access.tenant, pk), request.POST.get("name", "")
    rename = partial(dataset_rename, dataset=dataset, name=name, actor=request.user)
    run_action(request, rename, message="Dataset renamed.")
    return redirect_to(request, "dataset", pk)


@require_POST
@tenant_member_required(Role.DEVELOPER)
def delete_dataset(request: TenantRequest, pk: int) -> HttpResponse:
    """Delete a dataset that no version was trained on."""
    dataset = dataset_of(request.access.tenant, pk)
    message = f"Dataset {dataset.name} deleted."
    deleted = run_action(
        request, lambda: dataset_delete(dataset=dataset, actor=request.user), message=message
    )
    return redirect_to(request, "data") if deleted else redirect_to(request, "dataset", pk)


def _shared_context(request: TenantRequest, upload: Corpus | Dataset) -> dict[str, Any]:
    """Return the context that both pages share: roots to check, and versions trained on the upload."""
    tenant = request.access.tenant
    page = paginate(request, versions_built_from(tenant, upload), USES_SHOWN, key="uses")
    kind = root_kind_of(upload.task) if isinstance(upload, Dataset) else RootKind.ENCODER
    measured, _ = coverages_of(tenant, upload) if kind == RootKind.ENCODER else ([], [])
    return {
        "roots": parents_ready_for(tenant, root=kind).filter(kind=VersionKind.ROOT),
        "recommended": root_recommended(tenant, measured, kind=kind),
        "uses": page,
    }


def _fit(
    request: TenantRequest, check: Callable[[Version], tuple[TokenizerFit, list[TokenRow]]]
) -> HttpResponse:
    chosen = row_id(request.GET.get("root", ""))
    try:
        root = version_visible_to(request.access.tenant, chosen, param="root")
        fit, tokens = check(root)
    except HmiError as refusal:
        return render_page(request, "data/tokenizer_fit.html", refusal=refusal)
    lengths = doubling_bars([fit.lengths[digits] for digits in range(fit.longest.bit_length() + 1)])
    found: dict[str, Any] = {"fit": fit, "tokens": tokens, "lengths": lengths, "warnings": fit_warnings(fit)}
    return render_page(request, "data/tokenizer_fit.html", root=root, **found)
