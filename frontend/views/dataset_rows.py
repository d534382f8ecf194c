"""The rows of a dataset: shown, changed as a new dataset, and downloaded."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from django.http import HttpResponse, HttpResponseBase
from django.views.decorators.http import require_GET, require_POST

from frontend.access import TenantRequest, tenant_member_required
from frontend.downloads import DownloadResponse, csv_response
from frontend.forms.dataset_rows import RowChangesForm, RowsFilterForm, numbers_posted
from frontend.presenters.data import preview_rows
from frontend.presenters.jobs import first_job_of
from frontend.shortcuts import action_result, redirect_to, render_page, submit_form
from tenants.accounts.models import Role
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.row_ids import row_id
from tenants.datasets.formats.corrections import LABELED_TASKS
from tenants.datasets.models import Dataset, DatasetSplit, Split
from tenants.datasets.selectors.previews import dataset_first_rows, truncated_row
from tenants.datasets.selectors.rows import dataset_rows_at
from tenants.datasets.selectors.splits import RowFilter, SplitPage, split_open, split_page, split_table
from tenants.datasets.selectors.uploads import dataset_of
from tenants.datasets.services.editing import dataset_edit
from versiontree.tree.evaluation_answers import answers_filter
from versiontree.tree.selectors.evaluations import answers_of, evaluation_on
from versiontree.tree.selectors.label_checks import hplms_trained_on
from versiontree.tree.selectors.versions import hplm_of
from versiontree.tree.services.hplms import hplm_update

MODELS_OFFERED = 3
ROWS_SHOWN = 25


@require_GET
@tenant_member_required()
def rows(request: TenantRequest, pk: int) -> HttpResponse:
    """The rows of a dataset: of a split (`?split=`), with words (`?q=`), a label (`?label=`), those that the
    model answered otherwise (`?wrong=1`) or one of them (`?row=`), from a byte on (`?after=`)."""
    dataset = dataset_of(request.access.tenant, pk)
    evaluation = evaluation_on(request.access.tenant, _split(dataset, Split.TEST).sha256)
    labels = dataset.labels if dataset.task in LABELED_TASKS else []
    form = RowsFilterForm(request.GET, has_answers=evaluation is not None, labels=labels)
    split, numbers = form.split_shown, {number} if (number := row_id(request.GET.get("row", ""))) else None
    if form.is_wrong_only and evaluation is not None:
        numbers = {one.row for one in answers_filter(answers_of(evaluation), wrong=True)}
    wanted = RowFilter(request.GET.get("q", ""), request.GET.get("label", ""), numbers)
    page = _rows_from(dataset, split, wanted, request.GET.get("after", ""))
    shown = [(one.row, truncated_row(dict(one.fields))) for one in page.rows]
    changes = RowChangesForm(dataset, split, shown, _blank(dataset))
    return _page(request, dataset, changes, filter=form, next=page.cursor)


@require_POST
@tenant_member_required(Role.DEVELOPER)
def edit(request: TenantRequest, pk: int) -> HttpResponse:
    """Save the dataset with the changed rows of a page as a new one, and show it; or train a model on it."""
    dataset, split = dataset_of(request.access.tenant, pk), request.POST.get("split", "")
    if split not in Split.values:
        raise HmiError(ErrorCode.INVALID_FIELD, "Open the rows of a split, then change them.", param="split")
    numbers = numbers_posted(request.POST)
    found = dataset_rows_at(dataset, split=split, numbers={number - 1 for number in numbers})
    shown = [(number, truncated_row(found[number - 1])) for number in numbers if number - 1 in found]
    form = RowChangesForm(dataset, split, shown, _blank(dataset), request.POST)
    made = submit_form(form, lambda: _edit(request, dataset, form))
    if made is None:
        return _page(request, dataset, form)
    return saved(request, made)


@require_GET
@tenant_member_required()
def download(request: TenantRequest, pk: int) -> HttpResponseBase:
    """A split (`?split=`) as JSON lines, or with `?csv` as CSV with lists as JSON."""
    dataset, split = dataset_of(request.access.tenant, pk), request.GET.get("split", Split.TRAIN)
    file, name = split_open(dataset, split), f"{dataset.name}-{split}"
    if "csv" not in request.GET:
        return DownloadResponse(file, as_attachment=True, filename=f"{name}.jsonl")
    with file:
        return csv_response(f"{name}.csv", *split_table(file))


def saved(request: TenantRequest, made: Dataset) -> HttpResponse:
    """Redirect to a dataset that was just made of another one; with a model in `then`, train that on it and
    redirect to the job."""
    if name := request.POST.get("then", ""):
        model = hplm_of(request.access.tenant, name)
        version = action_result(request, lambda: hplm_update(hplm=model, dataset=made, actor=request.user))
        if version is not None:
            return redirect_to(
                request, "job", first_job_of(version).pk, message=f"Dataset {made.name} saved."
            )
    return redirect_to(request, "dataset", made.pk, message=f"Dataset {made.name} saved.")


def _rows_from(dataset: Dataset, split: str, wanted: RowFilter, cursor: str) -> SplitPage:
    """Return the rows from a cursor on; from the first row if no page has this cursor."""
    read = partial(split_page, dataset, split=split, wanted=wanted, limit=ROWS_SHOWN)
    try:
        return read(cursor=cursor)
    except HmiError as error:
        if not cursor or error.code != ErrorCode.INVALID_FIELD:
            raise
        return read()


def _edit(request: TenantRequest, dataset: Dataset, form: RowChangesForm) -> Dataset:
    name = form.cleaned_data["name"]
    return dataset_edit(dataset=dataset, changes=form.changes(), name=name, actor=request.user)


def _page(request: TenantRequest, dataset: Dataset, changes: RowChangesForm, **context: Any) -> HttpResponse:
    texts = preview_rows({changes.split: [one.row for one in changes.rows]})
    return render_page(
        request,
        "data/dataset_rows.html",
        dataset=dataset,
        has_labels=dataset.task in LABELED_TASKS,
        report=dataset.report,
        changes=changes,
        rows=list(zip(changes.rows, texts, strict=True)),
        models=hplms_trained_on(request.access.tenant, dataset.pk)[:MODELS_OFFERED],
        **context,
    )


def _split(dataset: Dataset, split: str) -> DatasetSplit:
    return next(row for row in dataset.splits.all() if row.split == split)


def _blank(dataset: Dataset) -> Mapping[str, Any]:
    """Return a row whose fields a new row has."""
    return next(iter(dataset_first_rows(dataset, Split.TRAIN)), {})
