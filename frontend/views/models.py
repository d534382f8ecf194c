"""Models: the list, the page of a model, updates, rebases and deletion."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib import messages
from django.db import transaction
from django.http import HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from frontend.access import TenantRequest, tenant_member_required
from frontend.forms.lists import ModelsForm
from frontend.forms.tree import AliasForm, CanaryForm, ModelDetailsForm, ModelUpdateForm
from frontend.markdown import card_html
from frontend.presenters.canaries import canary_trials
from frontend.presenters.charts import line_chart
from frontend.presenters.cloning import duplicate_url
from frontend.presenters.comparison import comparison_of, newest_evaluated
from frontend.presenters.evaluation_answers import evaluate_form
from frontend.presenters.jobs import first_job_of
from frontend.presenters.metrics import label_rows
from frontend.presenters.models import branch_names, model_rows
from frontend.presenters.promotions import lower_default, pending_promotions
from frontend.presenters.quick_versions import quick_version_panel
from frontend.presenters.sample_calls import SampleCall, sample_calls
from frontend.presenters.usage import usage_sum
from frontend.presenters.version_page import exports_of, lineage_rows
from frontend.presenters.versions import measurements, version_rows
from frontend.shortcuts import action_result, paginate, redirect_to, render_page, run_action, submit_form
from tenants.accounts.models import Role, Tenant
from tenants.datasets.models import TASKS_WITHOUT_LABELS, Task
from tenants.usage.selectors import UsageBy, UsageFilter, usage_by
from versiontree.transfer.services.version_export import version_card
from versiontree.tree.models import Alias, Hplm, Version
from versiontree.tree.models.hplm import DEFAULT_ALIAS
from versiontree.tree.models.version import VersionKind, VersionState
from versiontree.tree.selectors.alias_history import alias_history
from versiontree.tree.selectors.bases import base_root_kind
from versiontree.tree.selectors.browsing import branch_summaries, hplm_counts, hplm_summaries, hplms_search
from versiontree.tree.selectors.callable_hplms import callable_hplm
from versiontree.tree.selectors.lineage import LineageStep, lineage_of
from versiontree.tree.selectors.readiness import hplms_failing, recent_usage
from versiontree.tree.selectors.rebases import RebaseOffer, rebase_offer
from versiontree.tree.selectors.versions import (
    alias_moves_of,
    default_of,
    hplm_of,
    hplm_version,
    versions_of,
)
from versiontree.tree.services.hplms import hplm_delete, hplm_rename, hplm_set_description, hplm_update
from versiontree.tree.services.licenses import hplm_set_license
from versiontree.tree.services.rebases import hplm_rebase

CHANGED = "versions-changed"
"""The browser event when a version of the model became ready, or its default moved."""
MOVES_SHOWN = 20
VERSIONS_SHOWN = 5
PARTS = ("Overview", "Evaluation", "Usage", "Lineage", "Settings")
"""The parts of the page of a model, one of which is shown at a time."""
USAGE_DAYS = 30


@require_GET
@tenant_member_required()
def index(request: TenantRequest) -> HttpResponse:
    """The list of models, with search and filters."""
    tenant = request.access.tenant
    form = ModelsForm(branch_names(branch_summaries(tenant), hplm_counts(tenant)), request.GET)
    query = form.query()
    found = hplms_search(tenant, **query.filters)
    if query.failing:
        found = found.filter(pk__in=hplms_failing(tenant).values("pk"))
    page = paginate(request, found.order_by(*query.order))
    rows = model_rows(hplm_summaries(tenant, page), recent_usage(tenant, page))
    return render_page(
        request, "models/index.html", models=rows, page=page, form=form, words=bool(request.GET)
    )


@require_GET
@tenant_member_required()
def model(request: TenantRequest, name: str) -> HttpResponse:
    """The page of a model: versions, metrics, aliases and a sample API request."""
    model = hplm_of(request.access.tenant, name)
    form = AliasForm(model) if request.access.can_write else None
    return model_page(request, model, form)


@require_GET
@never_cache
@tenant_member_required()
def progress(request: TenantRequest, name: str) -> HttpResponse:
    """The quick and the trained version of a new model, as a part of its page. Triggers `versions-changed` if
    one of them is ready, or the default has moved."""
    model = hplm_of(request.access.tenant, name)
    versions = list(versions_of(model).prefetch_related("aliases", "jobs")[:VERSIONS_SHOWN])
    quick = quick_version_panel(versions, default_of(versions[0]))
    response = render_page(request, "models/quick_version.html", model=model, quick=quick)
    if quick is None or quick.known != request.GET.get("known"):
        response["HX-Trigger"] = CHANGED
    return response


@require_http_methods(["GET", "POST"])
@tenant_member_required(Role.DEVELOPER)
def update(request: TenantRequest, name: str) -> HttpResponse:
    """Train a version on new data, then redirect to its first job."""
    model = hplm_of(request.access.tenant, name)
    filled = request.GET.dict()
    form = ModelUpdateForm(
        request.access.tenant,
        request.POST or None,
        task=model.task,
        root=base_root_kind(model),
        initial=filled,
    )
    version = submit_form(form, lambda: _update(request, model, form))
    if version is None:
        return render_page(request, "models/update.html", form=form, model=model)
    return redirect_to(request, "job", first_job_of(version).pk)


@require_POST
@tenant_member_required(Role.DEVELOPER)
def rebase(request: TenantRequest, name: str) -> HttpResponse:
    """Create a version on the newest version of the domain or root, then redirect to its first job."""
    model = hplm_of(request.access.tenant, name)
    version = action_result(request, lambda: hplm_rebase(hplm=model, actor=request.user))
    if version is None:
        return redirect_to(request, "model", model.name)
    return redirect_to(request, "job", first_job_of(version).pk)


@require_POST
@tenant_member_required(Role.DEVELOPER)
def rename(request: TenantRequest, name: str) -> HttpResponse:
    """Give a model another name."""
    model, new_name = hplm_of(request.access.tenant, name), request.POST.get("name", "").strip()
    message = f"Model renamed. Requests to {name} fail from now on: use {new_name}."
    renamed = action_result(
        request, lambda: hplm_rename(hplm=model, name=new_name, actor=request.user), message=message
    )
    return redirect_to(request, "model", renamed.name if renamed else name)


@require_POST
@tenant_member_required(Role.DEVELOPER)
def delete(request: TenantRequest, name: str) -> HttpResponse:
    """Delete a model if its name was typed as confirmation."""
    model = hplm_of(request.access.tenant, name)
    if request.POST.get("name") != model.name:
        messages.error(request, f"The model was not deleted. To delete it, type its name: {model.name}.")
        return redirect_to(request, "model", model.name)
    deleted = run_action(
        request, lambda: hplm_delete(hplm=model, actor=request.user), message=f"Model {model.name} deleted."
    )
    return redirect_to(request, "home") if deleted else redirect_to(request, "model", model.name)


def _update(request: TenantRequest, model: Hplm, form: ModelUpdateForm) -> Version:
    cleaned = form.cleaned_data
    promote = cleaned["auto_promote"]
    return hplm_update(
        hplm=model,
        dataset=cleaned["dataset"],
        settings=form.settings(),
        auto_promote=promote,
        actor=request.user,
    )


def model_page(
    request: TenantRequest, model: Hplm, form: AliasForm | None, canary_form: CanaryForm | None = None
) -> HttpResponse:
    tenant = request.access.tenant
    page = paginate(request, versions_of(model).prefetch_related("aliases", "jobs"), VERSIONS_SHOWN)
    versions, aliases = list(page.object_list), list(model.aliases.all())  # as `hplm_of` read them
    evaluated = newest_evaluated(versions)
    listed = {version.pk: version for version in versions}
    default = next(
        (listed.get(alias.version_id, alias.version) for alias in aliases if alias.name == DEFAULT_ALIAS),
        None,
    )
    moves = list(alias_moves_of(model)[:MOVES_SHOWN])
    steps = lineage_of(default or versions[0])
    has_errors = bool((form and form.errors) or (canary_form and canary_form.errors))
    part = "Settings" if has_errors else request.GET.get("part")
    context: dict[str, Any] = {
        "model": model,
        "parts": PARTS,
        "chosen_part": part if part in PARTS else PARTS[0],
        "ready": bool(aliases),
        "default": default,
        "back": alias_history(model, DEFAULT_ALIAS).rollback_target if request.access.can_write else None,
        "labels": versions[0].config.get("labels", []),
        "versions": version_rows(versions, default=default),
        "pending": pending_promotions(versions, default),
        "lower": lower_default(default),
        "offer": _offer(default, steps),
        "quick": None if page.number > 1 else quick_version_panel(versions, default),
        "page": page,
        "comparison": comparison_of(evaluated) if evaluated else None,
        "evaluate": evaluate_form(tenant, default or versions[0]),
        "aliases": aliases,
        "moves": moves,
        "per_label": label_rows(measurements(steps[0].version)),
        "lineage": lineage_rows(tenant, steps),
        "duplicate": duplicate_url(tenant, steps) if request.access.can_write else "",
        "exports": exports_of(tenant, steps),
        "usage": _usage(tenant, model),
        "calls": _calls(request, model, aliases),
        "has_labels": model.task not in TASKS_WITHOUT_LABELS,
        "is_trained": model.task != Task.EMBEDDING,
        "form": form,
        "canary_form": canary_form or (form and CanaryForm(model)),
        "canaries": canary_trials(tenant, aliases),
    }
    return render_page(request, "models/model.html", **context)


def _offer(default: Version | None, steps: Sequence[LineageStep]) -> RebaseOffer | None:
    """Return the rebase that is possible; `steps` lead from the default version to its root."""
    if default is None:
        return None
    base = next(step.version for step in steps if step.version.kind != VersionKind.HPLM)
    return rebase_offer(default, base)


def _calls(request: TenantRequest, model: Hplm, aliases: Sequence[Alias]) -> list[SampleCall]:
    """Calls of the model by its name; without a default version by the first alias."""
    names = [alias.name for alias in aliases]
    if not names:
        return []
    reference = model.name if DEFAULT_ALIAS in names else f"{model.name}@{names[0]}"
    return sample_calls(request, model.tenant, callable_hplm(model.tenant, reference))


def _usage(tenant: Tenant, model: Hplm) -> dict[str, Any]:
    today = datetime.now(UTC).date()
    since = today - timedelta(days=USAGE_DAYS - 1)
    used = {day["name"]: day for day in usage_by(tenant, UsageBy.DAY, since, filters=UsageFilter(model.name))}
    days = [since + timedelta(days=n) for n in range(USAGE_DAYS)]
    requests = [used[day]["requests"] if day in used else 0 for day in days]
    at = [f"{day:%-d %b}" for day in days]
    chart = line_chart("Requests a day", {"requests a day": requests}, at=at, number_format=",")
    return {"sum": usage_sum(used.values()), "chart": chart}


@require_http_methods(["GET", "POST"])
@tenant_member_required(Role.DEVELOPER)
def edit(request: TenantRequest, name: str) -> HttpResponse:
    """Edit the description and the license of a model."""
    model = hplm_of(request.access.tenant, name)
    form = ModelDetailsForm(
        request.POST or None, initial={"description": model.description, "license": model.license}
    )
    if submit_form(form, lambda: _save_details(request, model, form)) is None:
        return render_page(request, "models/edit.html", model=model, form=form)
    return redirect_to(request, "model", model.name, message="Description saved.")


@require_GET
@tenant_member_required()
def card(request: TenantRequest, name: str, number: int) -> HttpResponse:
    """The model card of a version, the same as in its exports."""
    model = hplm_of(request.access.tenant, name)
    version = hplm_version(model, number)
    text = version_card(version)
    context: dict[str, Any] = {"version": version, "card": text, "html": card_html(text)}
    if version.state == VersionState.READY:
        offer = callable_hplm(model.tenant, f"{model.name}:{number}")
        context["calls"] = sample_calls(request, model.tenant, offer)
    return render_page(request, "models/card.html", model=model, **context)


@transaction.atomic
def _save_details(request: TenantRequest, model: Hplm, form: ModelDetailsForm) -> Hplm:
    """Save the changed fields, so that the audit log has no event for the others."""
    cleaned = form.cleaned_data
    if "description" in form.changed_data:
        hplm_set_description(hplm=model, description=cleaned["description"], actor=request.user)
    if "license" in form.changed_data:
        hplm_set_license(hplm=model, license=cleaned["license"], actor=request.user)
    return model
