"""The pages of versions of roots, domains and models."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.views.decorators.http import require_GET, require_POST

from frontend.access import TenantRequest, tenant_member_required
from frontend.forms.tree import VersionPolicyForm
from frontend.presenters.evaluation_answers import answer_names, answered_rows
from frontend.presenters.jobs import jobs_of_version
from frontend.presenters.promotions import compared_rows, lower_default, pending_promotions
from frontend.presenters.requests import LEVEL_LABELS
from frontend.presenters.served_answers import ServedAnswers, generated_answers, served_answers
from frontend.presenters.version_page import version_context
from frontend.presenters.versions import promotable
from frontend.shortcuts import redirect_to, render_page, run_action
from tenants.accounts.models import Role, Tenant
from tenants.base.errors import not_found
from tenants.datasets.models import GENERATIVE_TASKS
from tenants.usage.models import RequestStatus
from tenants.usage.request_selectors import RequestFilter, requests_of
from tenants.usage.selectors import answers_by_day
from versiontree.tree.evaluation_answers import answers_filter
from versiontree.tree.models import Domain, Hplm, Root, Version
from versiontree.tree.models.hplm import DEFAULT_ALIAS
from versiontree.tree.selectors.alias_history import alias_history
from versiontree.tree.selectors.evaluations import (
    answers_of,
    evaluation_of,
    own_test_sha256,
    row_source,
    rows_read,
    versions_evaluable,
)
from versiontree.tree.selectors.lineage import lineage_of
from versiontree.tree.selectors.versions import (
    default_of,
    domain_visible_to,
    hplm_of,
    hplm_version,
    root_by_name,
    versions_of,
)
from versiontree.tree.services.hplms import version_set_policy

MISTAKES_SHOWN = 3
VERSIONS_OFFERED = 20
SERVED_DAYS = 30
REQUESTS_READ = 200
"""The newest requests of a generative version whose figures are shown."""


@require_GET
@tenant_member_required()
def model_version(request: TenantRequest, name: str, number: int) -> HttpResponse:
    """A version of a model: metrics, mistakes, lineage and settings."""
    model = hplm_of(request.access.tenant, name)
    return _page(request, model, number, model=model)


@require_POST
@tenant_member_required(Role.DEVELOPER)
def set_policy(request: TenantRequest, name: str, number: int) -> HttpResponse:
    """Set how requests to a version are answered that choose no quality."""
    model = hplm_of(request.access.tenant, name)
    version, form = hplm_version(model, number), VersionPolicyForm(request.POST)
    if form.is_valid():
        policy = form.cleaned_data["policy"]
        run_action(
            request,
            lambda: version_set_policy(version=version, policy=policy, actor=request.user),
            message="Policy saved.",
        )
    else:
        messages.error(request, "The policy was not changed. Choose one from the list.")
    return redirect_to(request, "model_version", model.name, version.number)


@require_GET
@tenant_member_required()
def domain_version(request: TenantRequest, pk: int, number: int) -> HttpResponse:
    """A version of a domain: metrics, lookup tables and lineage."""
    domain = domain_visible_to(request.access.tenant, pk)
    return _page(request, domain, number, domain=domain)


@require_GET
@tenant_member_required()
def root_version(request: TenantRequest, name: str, number: int) -> HttpResponse:
    """A version of a root: the errors of its conversion."""
    return _page(request, root_by_name(name), number)


def _page(
    request: TenantRequest,
    owner: Root | Domain | Hplm,
    number: int,
    *,
    model: Hplm | None = None,
    domain: Domain | None = None,
) -> HttpResponse:
    tenant = request.access.tenant
    versions = versions_of(owner).prefetch_related("aliases", "jobs__after")
    found = versions.filter(number=number).first()
    if found is None:
        raise not_found("version")
    context, default = version_context(tenant, lineage_of(found)), default_of(found)
    return render_page(
        request,
        "versions/version.html",
        owner=owner,
        model=model,
        domain=domain,
        aliases=found.aliases.all(),
        deployment_policy=LEVEL_LABELS[settings.HMI_POLICY],
        policy_name=LEVEL_LABELS.get(found.policy, "Default of this installation"),
        policy=found.policy or settings.HMI_POLICY,
        jobs=jobs_of_version(found) if found.tenant_id == tenant.pk else [],
        **(_actions(model, found) if model and request.access.can_write else {}),
        **(_answers(tenant, found) if model else {}),
        pending=pending_promotions([found], default),
        lower=lower_default(default) if default == found else None,
        compared=compared_rows(found),
        served=_served(tenant, model, found) if model else None,
        **context,
    )


def _actions(model: Hplm, version: Version) -> dict[str, Any]:
    """Return the form of the policy, and whether the version can be promoted, or the version to roll back
    to if it is the default."""
    form = VersionPolicyForm(initial={"policy": version.policy})
    if any(alias.name == DEFAULT_ALIAS for alias in version.aliases.all()):
        return {"policy_form": form, "back": alias_history(model, DEFAULT_ALIAS).rollback_target}
    return {"policy_form": form, "promotable": promotable([version])}


def _served(tenant: Tenant, model: Hplm, version: Version) -> ServedAnswers | None:
    """Return what the version answered lately. An earlier model may have had its name."""
    if version.ready_at is None:
        return None
    since = max(datetime.now(UTC) - timedelta(days=SERVED_DAYS - 1), version.ready_at)
    if model.task in GENERATIVE_TASKS:
        logged = requests_of(tenant, RequestFilter(model.name, RequestStatus.ANSWERED, since=since))
        return generated_answers(logged.filter(version=version.number)[:REQUESTS_READ])
    return served_answers(answers_by_day(tenant, model.name, version.number, since.date()))


def _answers(tenant: Tenant, version: Version) -> dict[str, Any]:
    """Return the mistakes with the highest confidence, and the versions to compare with."""
    others = [one for one in versions_evaluable(version, limit=VERSIONS_OFFERED) if one != version]
    evaluation = evaluation_of(tenant, version, test_sha256=own_test_sha256(version))
    if evaluation is None:
        return {"others": others}
    answers, source = answers_of(evaluation), row_source(tenant, evaluation.test_sha256)
    wrong = answers_filter(answers, wrong=True)
    shown = wrong[:MISTAKES_SHOWN]
    rows = answered_rows(answers.task, shown, rows_read(source, shown))
    return {
        "others": others,
        "evaluation": evaluation,
        "answers": answers,
        "source": source,
        "rows": rows,
        "names": answer_names(answers.task),
        "mistakes_more": f"All {len(wrong):,}",
    }
