"""The wizard for a new model: data, parent, settings, review.

The URL carries all values, so that back, forward and bookmarks work. Nothing is stored before the last step.
"""

from typing import Any

from django.db.models import Model
from django.http import HttpResponse
from django.views.decorators.http import require_http_methods

from frontend.access import TenantRequest, tenant_member_required
from frontend.forms.create_model import CreateForm, CreateStep, DataFilter, step_of
from frontend.presenters.create_model import (
    call_of,
    data_choices,
    estimate_shown,
    parent_choices,
    settings_shown,
)
from frontend.presenters.jobs import first_job_of
from frontend.presenters.versions import parent_name
from frontend.shortcuts import redirect_to, render_page, submit_form
from tenants.accounts.models import Role, Tenant
from tenants.base.errors import HmiError
from tenants.base.row_ids import row_id
from tenants.datasets.models import Dataset
from tenants.datasets.selectors.previews import search_by_name
from tenants.datasets.selectors.uploads import datasets_of
from versiontree.names import slug_of
from versiontree.tree.models import RootKind, Version
from versiontree.tree.selectors.coverage import coverage_request, coverage_targets, coverages_of
from versiontree.tree.selectors.estimates import hplm_estimate
from versiontree.tree.selectors.recommended_root import parent_recommended
from versiontree.tree.selectors.versions import parents_ready_for, roots_building
from versiontree.tree.services.dry_run import dry_run
from versiontree.tree.services.hplms import hplm_create

DATASETS_SHOWN = 12


@require_http_methods(["GET", "POST"])
@tenant_member_required(Role.DEVELOPER)
def new(request: TenantRequest) -> HttpResponse:
    """Show a step. POST creates the model, then redirects to where its training can be watched.

    With invalid values, the step that has them is shown.
    """
    posted = request.method == "POST"
    data = request.POST if posted else request.GET
    requested = CreateStep.REVIEW if posted else step_of(data)
    form = CreateForm(request.access.tenant, data)
    if requested == CreateStep.REVIEW and not posted:
        # Steps that ask for these were skipped.
        filled = data.copy()
        filled.update(_initial_name(form) if "name" not in data else {})
        filled.update(_default_parent(form, request.access.tenant) if "parent" not in data else {})
        form = CreateForm(request.access.tenant, filled)
    step = form.first_invalid(before=requested) or requested
    if step == CreateStep.REVIEW:
        made = _create(request, form) if posted else None
        if made is not None:
            return _redirect_to_progress(request, made)
        planned = None if form.errors else _create(request, form, dry=True)
        config = planned.config if planned else {}
        step = form.first_invalid(before=CreateStep.REVIEW) or step
        if step == CreateStep.REVIEW:
            return _review(request, form, config)
    return _STEPS[step](request, form, show_errors=step != requested)


def _redirect_to_progress(request: TenantRequest, version: Version) -> HttpResponse:
    """Redirect to where the training can be watched: the model with its quick version, or the first job."""
    if version.number > 1:
        return redirect_to(request, "model", version.name)
    return redirect_to(request, "job", first_job_of(version).pk)


def _create(request: TenantRequest, form: CreateForm, *, dry: bool = False) -> Version | None:
    def create() -> Version:
        return hplm_create(tenant=request.access.tenant, actor=request.user, **_chosen(form))

    return submit_form(form, lambda: dry_run(create) if dry else create())


def _chosen(form: CreateForm) -> dict[str, Any]:
    """Return the values by the names that services and the API use."""
    cleaned = form.cleaned_data
    return {
        "name": cleaned["name"],
        "parent": cleaned["parent"],
        "dataset": cleaned["dataset"],
        "settings": form.settings(),
        "license": cleaned["license"],
        "quick": cleaned.get("quick", False),
    }


def _body(form: CreateForm) -> dict[str, Any]:
    """Return the body of the API request: ids instead of rows, without empty values and defaults."""
    chosen = _chosen(form)
    quick = chosen.pop("quick") or "quick" not in form.fields
    given = {name: value for name, value in chosen.items() if value} | ({} if quick else {"quick": False})
    return {name: value.pk if isinstance(value, Model) else value for name, value in given.items()}


def _data(request: TenantRequest, form: CreateForm, *, show_errors: bool) -> HttpResponse:
    tenant = request.access.tenant
    wanted = DataFilter(request.GET)
    task, words = (wanted.cleaned_data["task"], wanted.cleaned_data["q"]) if wanted.is_valid() else ("", "")
    every = datasets_of(tenant).filter(task=task) if task else datasets_of(tenant)
    found = search_by_name(every, words=words)
    chosen = _chosen_dataset(form)
    context = {
        "filter": wanted,
        "datasets": data_choices(found[:DATASETS_SHOWN], chosen),
        "found": found.count(),
        "filtered": bool(task or words),
    }
    return _page(request, form, CreateStep.DATA, show_errors=show_errors, **context)


def _parent(request: TenantRequest, form: CreateForm, *, show_errors: bool) -> HttpResponse:
    tenant, dataset = request.access.tenant, _chosen_dataset(form)
    assert dataset is not None  # the step before has none of its errors
    has_tables = form.root == RootKind.ENCODER
    measured, waiting = coverages_of(tenant, dataset) if has_tables else ([], [])
    if waiting:
        coverage_request(dataset)
    targets = coverage_targets(tenant, root=form.root)
    chosen = row_id(str(form.data.get("parent", ""))) or None
    if chosen is not None and chosen not in {version.pk for version in targets}:
        # A link may name an earlier version than the newest.
        targets = [*parents_ready_for(tenant, root=form.root).filter(pk=chosen), *targets]
    parents = parent_choices(targets, measured, chosen, measuring=bool(waiting))
    context = {
        "parents": parents,
        "building": [] if parents else roots_building(form.root),
        "waiting": waiting,
        "dataset": dataset,
        "has_tables": has_tables,
    }
    return _page(request, form, CreateStep.PARENT, show_errors=show_errors, **context)


def _settings(request: TenantRequest, form: CreateForm, *, show_errors: bool) -> HttpResponse:
    own = form.of_step(CreateStep.SETTINGS)
    filled = {name: form.data[name] for name in own if name in form.data}
    blank = CreateForm(request.access.tenant, task=form.task, initial=_initial_name(form) | filled)
    return _page(
        request, form, CreateStep.SETTINGS, show_errors=show_errors, fields=form if show_errors else blank
    )


def _review(request: TenantRequest, form: CreateForm, config: dict[str, Any]) -> HttpResponse:
    cleaned = form.cleaned_data
    context = {
        "chosen": cleaned,
        "parent": parent_name(cleaned["parent"]),
        "settings": settings_shown(form.settings()),
        "quick": cleaned.get("quick"),
        "estimate": estimate_shown(hplm_estimate(cleaned["parent"], viewer=request.access.tenant)),
        "warnings": config.get("warnings", []),
        "call": call_of(request, _body(form)),
    }
    return _page(request, form, CreateStep.REVIEW, show_errors=True, **context)


_STEPS = {CreateStep.DATA: _data, CreateStep.PARENT: _parent, CreateStep.SETTINGS: _settings}


def _page(
    request: TenantRequest, form: CreateForm, step: CreateStep, *, show_errors: bool, **context: Any
) -> HttpResponse:
    steps = list(CreateStep)
    at = steps.index(step)
    return render_page(
        request,
        f"create_model/{step}.html",
        form=form,
        marks=form.marks(step),
        faults=_faults(form, step) if show_errors else [],
        kept=form.filled(without=step),
        next=steps[at + 1] if at + 1 < len(steps) else None,
        back=form.query(steps[at - 1]) if at else "",
        **context,
    )


def _chosen_dataset(form: CreateForm) -> Dataset | None:
    return form.cleaned_data.get("dataset") if form.is_bound and form.errors is not None else None


def _faults(form: CreateForm, step: CreateStep) -> list[str]:
    """Return the errors that are not shown beside a field."""
    choices = () if step == CreateStep.SETTINGS else form.of_step(step)
    return [str(error) for name in ("__all__", *choices) for error in form.errors.get(name, [])]


def _default_parent(form: CreateForm, tenant: Tenant) -> dict[str, str]:
    """Return the parent that is recommended for the dataset; none before a root is ready."""
    dataset = _chosen_dataset(form)
    try:
        return {} if dataset is None else {"parent": str(parent_recommended(tenant, dataset).pk)}
    except HmiError:
        return {}


def _initial_name(form: CreateForm) -> dict[str, str]:
    """Return the initial name: that of the dataset, as a slug."""
    dataset = _chosen_dataset(form)
    if dataset is None:
        return {}
    return {"name": slug_of(dataset.name)}
