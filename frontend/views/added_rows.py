"""Rows from elsewhere that become training rows: a text of the request log, or a test row that a model got
wrong."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from frontend.access import TenantRequest, tenant_member_required
from frontend.forms.dataset_rows import AddedRowForm
from frontend.presenters.data import preview_rows
from frontend.shortcuts import render_page, submit_form
from frontend.views.dataset_rows import MODELS_OFFERED, saved
from tenants.accounts.models import Role, Tenant
from tenants.base.errors import not_found, require_found
from tenants.datasets.formats.edits import RowChange
from tenants.datasets.models import Dataset, Split, Task
from tenants.datasets.selectors.previews import dataset_first_rows, truncated_row
from tenants.datasets.selectors.rows import dataset_rows_at
from tenants.datasets.selectors.uploads import dataset_of, datasets_for_task
from tenants.datasets.services.editing import dataset_edit
from tenants.usage.models import LoggedRequest
from tenants.usage.request_selectors import requests_of
from versiontree.tree.models import Hplm
from versiontree.tree.selectors.evaluations import datasets_like
from versiontree.tree.selectors.label_checks import hplms_trained_on
from versiontree.tree.selectors.versions import hplm_of, hplm_version
from versiontree.tree.serving_manifest import takes_pairs

DATASETS_OFFERED: Final = 50
INPUT_FIELDS: Final = {
    Task.CLASSIFICATION: "text",
    Task.MULTILABEL: "text",
    Task.REGRESSION: "text",
    Task.GENERATION: "prompt",
}
"""The field of a row that an input of a request is. A person fills in the others."""


@dataclass(frozen=True, slots=True)
class RowOrigin:
    """A row to add: the ``known`` fields, the datasets that fit it with the likeliest first, the models that
    may be trained on the result, and ``test_row``: its dataset and number, if it is a test row."""

    known: Mapping[str, Any]
    datasets: Sequence[Dataset]
    models: Sequence[Hplm]
    test_row: tuple[Dataset, int] | None = None


@never_cache
@require_http_methods(["GET", "POST"])
@tenant_member_required(Role.DEVELOPER)
def of_request(request: TenantRequest, pk: int, number: int) -> HttpResponse:
    """Add an input of a logged request, counted from 1, to a dataset for the task of its model."""
    return _add(request, _request_origin(request.access.tenant, pk, number))


@require_http_methods(["GET", "POST"])
@tenant_member_required(Role.DEVELOPER)
def of_test_row(request: TenantRequest, pk: int, number: int) -> HttpResponse:
    """Move a row from the test split of a dataset to its training rows, or copy it to another dataset."""
    return _add(request, _test_row_origin(request.access.tenant, pk, number))


def has_input_rows(hplm: Hplm, config: Mapping[str, Any]) -> bool:
    """Whether an input of a version with this config is a row, but for what a person fills in."""
    return hplm.task in INPUT_FIELDS and not takes_pairs(hplm.task, config)


def _request_origin(tenant: Tenant, pk: int, number: int) -> RowOrigin:
    entry: LoggedRequest = require_found(requests_of(tenant).filter(pk=pk).first(), "request")
    texts = entry.texts or []
    hplm = hplm_of(tenant, entry.model_name)
    version = hplm_version(hplm, entry.version or 0)
    if not 1 <= number <= len(texts) or not has_input_rows(hplm, version.config):
        raise not_found("input that a dataset can have")
    datasets = datasets_like(tenant, version, limit=DATASETS_OFFERED)
    return RowOrigin({INPUT_FIELDS[Task(hplm.task)]: texts[number - 1]}, datasets, [hplm])


def _test_row_origin(tenant: Tenant, pk: int, number: int) -> RowOrigin:
    dataset = dataset_of(tenant, pk)
    found = dataset_rows_at(dataset, split=Split.TEST, numbers={number - 1})
    row = require_found(found.get(number - 1), "row of this dataset")
    datasets = datasets_for_task(
        tenant, dataset.task, pairs=dataset.pairs, first=dataset.pk, limit=DATASETS_OFFERED
    )
    models = hplms_trained_on(tenant, dataset.pk)[:MODELS_OFFERED]
    return RowOrigin(row, datasets, list(models), (dataset, number))


def _add(request: TenantRequest, origin: RowOrigin) -> HttpResponse:
    if not origin.datasets:
        raise not_found("dataset for this task yet. Upload one first")
    blank = next(iter(dataset_first_rows(origin.datasets[0], Split.TRAIN)), {})
    data = request.POST if request.method == "POST" else None
    form = AddedRowForm(origin.datasets, blank, origin.known, data)
    made = submit_form(form, lambda: _save(request, origin, form)) if data is not None else None
    if made is not None:
        return saved(request, made)
    is_partly_shown = bool(origin.known.keys() - form.row.fields.keys())
    labels = sorted({label for one in origin.datasets for label in one.labels})
    return render_page(
        request,
        "data/add_row.html",
        form=form,
        labels=labels,
        models=origin.models,
        test_dataset=origin.test_row[0] if origin.test_row else None,
        row=preview_rows({Split.TEST: [truncated_row(dict(origin.known))]})[0] if is_partly_shown else None,
    )


def _save(request: TenantRequest, origin: RowOrigin, form: AddedRowForm) -> Dataset:
    """Add the row. A test row leaves the test split of its own dataset: what is trained on is no test."""
    chosen, changes = form.chosen(), [form.change()]
    if origin.test_row and origin.test_row[0] == chosen:
        changes.append(RowChange(Split.TEST, origin.test_row[1], None))
    return dataset_edit(dataset=chosen, changes=changes, name=form.cleaned_data["name"], actor=request.user)
