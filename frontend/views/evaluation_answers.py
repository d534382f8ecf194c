"""The answers of an evaluation: the mistakes of a version, and the changes between two versions."""

from typing import Any

from django.http import HttpResponse, HttpResponseBase
from django.views.decorators.http import require_GET, require_POST

from frontend.access import TenantRequest, tenant_member_required
from frontend.downloads import csv_stream_response
from frontend.presenters.comparison import comparison_of
from frontend.presenters.evaluation_answers import (
    answer_names,
    answered_rows,
    changed_rows,
    comparison_verdict,
    evaluate_form,
    tallies,
)
from frontend.presenters.evaluation_csv import changed_csv_columns, changed_csv_rows, csv_columns, csv_rows
from frontend.presenters.versions import promotable
from frontend.shortcuts import action_result, paginate, redirect_to, render_page
from tenants.accounts.models import Role
from tenants.base.row_ids import row_id
from tenants.datasets.selectors.uploads import dataset_of
from versiontree.tree.evaluation_answers import RowAnswer, answer_labels, answers_compare, answers_filter
from versiontree.tree.models import Version
from versiontree.tree.selectors.evaluations import (
    answers_of,
    evaluation_of,
    evaluations_shared,
    row_source,
    rows_read,
    versions_evaluable,
)
from versiontree.tree.selectors.versions import hplm_of, hplm_version
from versiontree.tree.services.evaluations import evaluation_request

VERSIONS_OFFERED = 50


@require_GET
@tenant_member_required()
def index(request: TenantRequest, name: str, number: int) -> HttpResponseBase:
    """The mistakes of a version, or all its answers, filtered by label. `?csv` downloads them."""
    version = _version(request, name, number)
    evaluation = evaluation_of(request.access.tenant, version, test_sha256=request.GET.get("test", ""))
    if evaluation is None:
        return render_page(
            request, "versions/answers.html", version=version, **evaluate_form(request.access.tenant, version)
        )
    found, source = answers_of(evaluation), row_source(request.access.tenant, evaluation.test_sha256)
    filters = _filters(request)
    chosen = answers_filter(found, **filters)
    if "csv" in request.GET:
        lines = csv_rows(found.task, chosen, rows_read(source, chosen))
        return csv_stream_response(f"{name}-v{number}.csv", csv_columns(found.task), lines)
    page = paginate(request, chosen)
    shown: list[RowAnswer] = list(page.object_list)
    context: dict[str, Any] = {
        "evaluation": evaluation,
        "answers": found,
        "names": answer_names(found.task),
        "source": source,
        "filters": filters,
        "labels": answer_labels(found),
        "rows": answered_rows(found.task, shown, rows_read(source, shown)),
        "page": page,
        "others": [one for one in versions_evaluable(version, limit=VERSIONS_OFFERED) if one != version],
    }
    return render_page(request, "versions/answers.html", version=version, **context)


@require_GET
@tenant_member_required()
def compare(request: TenantRequest, name: str, number: int, other: int) -> HttpResponseBase:
    """The rows that two versions answered differently. `?change=` filters them, `?csv` downloads them."""
    tenant = request.access.tenant
    version, earlier = _version(request, name, number), _version(request, name, other)
    pair = evaluations_shared(tenant, earlier, version)
    context: dict[str, Any] = {
        "version": version,
        "other": earlier,
        "model": version.hplm,
        "comparison": comparison_of([earlier, version]),
        "promotable": promotable([version, earlier]) if request.access.can_write else [],
    }
    if pair is None:
        offers = [
            evaluate_form(request.access.tenant, earlier, version.dataset_id),
            evaluate_form(request.access.tenant, version, earlier.dataset_id),
        ]
        return render_page(request, "versions/compare.html", **context, offers=offers)
    before, after = (answers_of(evaluation) for evaluation in pair)
    every, source = answers_compare(before, after), row_source(tenant, pair[1].test_sha256)
    kind = request.GET.get("change", "")
    chosen = [one for one in every if not kind or one.change == kind]
    rows = rows_read(source, (one.after for one in chosen))
    if "csv" in request.GET:
        lines = changed_csv_rows(after.task, chosen, rows)
        columns = changed_csv_columns(after.task)
        return csv_stream_response(f"{name}-v{other}-v{number}.csv", columns, lines)
    page = paginate(request, chosen)
    texts = rows_read(source, (one.after for one in page))
    context |= {
        "evaluation": pair[1],
        "answers": after,
        "names": answer_names(after.task),
        "source": source,
        "kind": kind,
        "tallies": tallies(after.task, every),
        "same": len(after.answered) - len(every),
        "verdict": comparison_verdict(number, other, every, len(after.answered)),
        "rows": changed_rows(after.task, page, texts),
        "page": page,
        "others": [one for one in versions_evaluable(version, limit=VERSIONS_OFFERED) if one != version],
    }
    return render_page(request, "versions/compare.html", **context)


@require_POST
@tenant_member_required(Role.DEVELOPER)
def evaluate(request: TenantRequest, name: str, number: int) -> HttpResponse:
    """Evaluate a version on the test split of a dataset, then redirect to the job."""
    tenant, version = request.access.tenant, _version(request, name, number)
    dataset = dataset_of(tenant, row_id(request.POST.get("dataset", "")))
    job = action_result(
        request,
        lambda: evaluation_request(version=version, dataset=dataset, tenant=tenant, actor=request.user),
    )
    return (
        redirect_to(request, "job", job.pk) if job else redirect_to(request, "version_answers", name, number)
    )


def _version(request: TenantRequest, name: str, number: int) -> Version:
    return hplm_version(hplm_of(request.access.tenant, name), number)


def _filters(request: TenantRequest) -> dict[str, Any]:
    """Return the filters of the query: wrong answers only unless `?wrong=0`, expected and given label."""
    chosen = {key: request.GET.get(key, "") for key in ("gold", "predicted")}
    return {"wrong": request.GET.get("wrong", "1") != "0", **chosen}
