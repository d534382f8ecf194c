"""What a version answered when it was evaluated: its mistakes, and what changed against another version."""

from typing import Any

from django.http import HttpResponse, HttpResponseBase
from django.views.decorators.http import require_GET, require_POST

from frontend.access import TenantRequest, tenant_member_required
from frontend.downloads import csv_stream_response
from frontend.presenters.evaluation_answers import (
    CHANGED_COLUMNS,
    COLUMNS,
    answered_rows,
    chance_of,
    changed_csv_rows,
    changed_rows,
    csv_rows,
    tallies,
)
from frontend.presenters.versions import promotable
from frontend.shortcuts import paginate, redirect_to, render_page, run_action
from tenants.accounts.models import Role
from tenants.datasets.selectors.uploads import dataset_of
from versiontree.jobs.models import ACTIVE, Job
from versiontree.jobs.selectors import jobs_of
from versiontree.tree.evaluation_answers import RowAnswer, answer_labels, answers_compare, answers_filter
from versiontree.tree.models import Version
from versiontree.tree.selectors.evaluations import (
    answers_of,
    datasets_like,
    evaluation_of,
    evaluations_shared,
    row_source,
    rows_read,
    versions_evaluable,
)
from versiontree.tree.selectors.versions import hplm_of, hplm_version
from versiontree.tree.services.evaluations import evaluation_request

VERSIONS_OFFERED = 50
DATASETS_OFFERED = 50


@require_GET
@tenant_member_required()
def answers(request: TenantRequest, name: str, number: int) -> HttpResponseBase:
    """The rows that a version answered wrongly, or all, perhaps of some labels; `?csv` downloads them."""
    version = _version(request, name, number)
    evaluation = evaluation_of(request.access.tenant, version, test_sha256=request.GET.get("test", ""))
    if evaluation is None:
        return render_page(request, "versions/answers.html", version=version, **_again(request, version))
    found, source = answers_of(evaluation), row_source(request.access.tenant, evaluation.test_sha256)
    asked = _query(request)
    chosen = answers_filter(found, **asked)
    if "csv" in request.GET:
        lines = csv_rows(found.task, chosen, rows_read(source, chosen))
        return csv_stream_response(f"{name}-v{number}.csv", COLUMNS, lines)
    page = paginate(request, chosen)
    shown: list[RowAnswer] = list(page.object_list)
    context: dict[str, Any] = {
        "evaluation": evaluation,
        "answers": found,
        "source": source,
        "asked": asked,
        "labels": answer_labels(found),
        "rows": answered_rows(found.task, shown, rows_read(source, shown)),
        "page": page,
        "others": [one for one in versions_evaluable(version, limit=VERSIONS_OFFERED) if one != version],
    }
    return render_page(request, "versions/answers.html", version=version, **context)


@require_GET
@tenant_member_required()
def against(request: TenantRequest, name: str, number: int, other: int) -> HttpResponseBase:
    """The rows that another version of the model answered differently, perhaps only those that were fixed or
    broken; `?csv` downloads them."""
    tenant, version, earlier = (
        request.access.tenant,
        _version(request, name, number),
        _version(request, name, other),
    )
    pair = evaluations_shared(tenant, earlier, version)
    both: dict[str, Any] = {
        "version": version,
        "other": earlier,
        "hplm": version.hplm,
        "promotable": promotable([version, earlier]) if request.access.can_write else [],
    }
    if pair is None:
        offers = [_again(request, one, dataset_id) for one, dataset_id in _missing(earlier, version)]
        return render_page(request, "versions/against.html", **both, offers=offers)
    before, after = (answers_of(evaluation) for evaluation in pair)
    every, source = answers_compare(before, after), row_source(tenant, pair[1].test_sha256)
    kind = request.GET.get("change", "")
    chosen = [one for one in every if not kind or one.change == kind]
    rows = rows_read(source, (one.after for one in chosen))
    if "csv" in request.GET:
        lines = changed_csv_rows(after.task, chosen, rows)
        return csv_stream_response(f"{name}-v{other}-v{number}.csv", CHANGED_COLUMNS, lines)
    page = paginate(request, chosen)
    texts = rows_read(source, (one.after for one in page))
    context: dict[str, Any] = {
        "evaluation": pair[1],
        "answers": after,
        "source": source,
        "kind": kind,
        "tallies": tallies(after.task, every),
        "same": len(after.answered) - len(every),
        "chance": chance_of(every),
        "rows": changed_rows(after.task, page, texts),
        "page": page,
        "others": [one for one in versions_evaluable(version, limit=VERSIONS_OFFERED) if one != version],
    }
    return render_page(request, "versions/against.html", **both, **context)


@require_POST
@tenant_member_required(Role.DEVELOPER)
def evaluate(request: TenantRequest, name: str, number: int) -> HttpResponse:
    """Have a version answer the test rows of a dataset again; the page of its job follows."""
    tenant, version = request.access.tenant, _version(request, name, number)
    given = request.POST.get("dataset", "")
    dataset = dataset_of(tenant, int(given) if given.isdecimal() and len(given) < 18 else 0)
    made: list[Job] = []
    queued = run_action(
        request,
        lambda: made.append(
            evaluation_request(version=version, dataset=dataset, tenant=tenant, actor=request.user)
        ),
    )
    return (
        redirect_to(request, "job", made[0].pk) if queued else redirect_to(request, "answers", name, number)
    )


def _version(request: TenantRequest, name: str, number: int) -> Version:
    return hplm_version(hplm_of(request.access.tenant, name), number)


def _query(request: TenantRequest) -> dict[str, Any]:
    """Which answers: the wrong ones unless `?wrong=0`, with an expected and a given label."""
    chosen = {key: request.GET.get(key, "") for key in ("gold", "predicted")}
    return {"wrong": request.GET.get("wrong", "1") != "0", **chosen}


def _again(request: TenantRequest, version: Version, dataset: int | None = None) -> dict[str, Any]:
    """What is needed to offer that a version is evaluated again: on what, or the job that does it."""
    assert version.hplm is not None
    tenant = request.access.tenant
    job = jobs_of(tenant).filter(version=version, state__in=ACTIVE).first()
    datasets = datasets_like(tenant, version, limit=DATASETS_OFFERED)
    return {"again": version, "job": job, "datasets": datasets, "chosen": dataset or version.dataset_id}


def _missing(earlier: Version, later: Version) -> list[tuple[Version, int | None]]:
    """Which of the two has to be asked what, so that both were asked the same."""
    return [(earlier, later.dataset_id), (later, earlier.dataset_id)]
