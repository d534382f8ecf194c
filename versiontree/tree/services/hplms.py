"""Create, update, rename, describe, pin and delete models, and set policies of their versions."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from tenants.accounts.models import Tenant
from tenants.audit.details import change
from tenants.audit.services import Actor, audit_record, person
from tenants.base import hooks
from tenants.base.errors import ErrorCode, HmiError, has_dependents
from tenants.datasets.models import Dataset, Task
from tenants.usage.services.quotas import quota_lock
from versiontree.jobs.models import ACTIVE, Job, JobKind
from versiontree.names import require_slug
from versiontree.tree.models import Alias, AliasMove, FineTuning, Hplm, Root, RootKind, Version
from versiontree.tree.models.hplm import DEFAULT_ALIAS, MAX_DESCRIPTION_LENGTH
from versiontree.tree.models.version import VersionKind, VersionPolicy, VersionState
from versiontree.tree.selectors.versions import root_kind_of
from versiontree.tree.services.aliases import hplm_lock
from versiontree.tree.services.licenses import license_check
from versiontree.tree.services.quota_reservations import (
    JOBS_PER_HPLM_VERSION,
    hplm_name_check,
    quota_reserve_hplm,
    quota_reserve_version,
)
from versiontree.tree.services.settings_inheritance import settings_inherited, start_warnings
from versiontree.tree.services.versions import (
    JobPlan,
    dataset_check,
    parent_check,
    tables_check,
    version_create,
    version_transition,
)
from versiontree.tree.serving_manifest import manifest_publish_on_commit
from versiontree.tree.tokenizer_fit import dataset_warnings
from versiontree.tree.training_settings import pet_check, settings_check

QUICK_TASKS: Final = frozenset({Task.CLASSIFICATION, Task.MULTILABEL, Task.REGRESSION, Task.TAGGING})
"""The tasks whose models have a quick version, as in `inference.text.tasks`."""


def hplm_create(
    *,
    tenant: Tenant,
    name: str,
    parent: Version,
    dataset: Dataset,
    actor: Actor,
    settings: Mapping[str, Any] | None = None,
    auto_promote: bool = True,
    license: str = "",  # noqa: A002
    quick: bool = False,
    reserved_by: FineTuning | None = None,
) -> Version:
    """Create a model under a ready version of a root or domain; jobs fine-tune and evaluate it.

    With ``quick``, if the task is one of ``QUICK_TASKS``, version 1 is a quick one that answers until the
    trained version 2 is ready. Returns the trained version. ``reserved_by`` is the fine-tuning that it is
    for. Raises ``invalid_field`` (also for a task that is not for this kind of root), ``conflict`` (the
    name), ``not_found`` (parent or dataset), ``model_not_ready``, ``quota_exceeded``.
    """
    require_slug(name)
    license_text = license_check(license)
    root = task_check(task=dataset.task, root=parent.root)
    config = _config(dataset, tenant, settings, auto_promote, root) | dataset_warnings(parent, dataset)
    quick = quick and dataset.task in QUICK_TASKS
    with transaction.atomic():
        quota_reserve_version(tenant=tenant, jobs=JOBS_PER_HPLM_VERSION, reserved_by=reserved_by)
        quota_reserve_hplm(tenant=tenant, name=name, reserved_by=reserved_by)
        above = parent_check(parent=parent, tenant=tenant, kinds=[VersionKind.ROOT, VersionKind.DOMAIN])
        tables_check(above)
        hplm = Hplm.unscoped.create(
            tenant=tenant, name=name, task=dataset.task, license=license_text, created_by=person(actor)
        )
        if quick:
            hplm_version_create(hplm, above, dataset, config | {"quick": True}, actor)
        version = hplm_version_create(hplm, above, dataset, config, actor)
        _record(version, actor, verb="model.create")
        return version


def hplm_update(
    *,
    hplm: Hplm,
    dataset: Dataset,
    actor: Actor,
    settings: Mapping[str, Any] | None = None,
    auto_promote: bool = True,
    reserved_by: FineTuning | None = None,
) -> Version:
    """Create the next version of a model, trained further from the one that ``default`` points at.

    It inherits the settings and the policy of that version. If the settings prevent training further,
    ``config["warnings"]`` says so. If that version is a quick one, training starts from its parent. With
    ``auto_promote`` the alias moves to the new version once it is ready. Raises ``not_found`` (deleted model,
    another tenant's dataset), ``invalid_field`` (a dataset of another task), ``model_not_ready``,
    ``quota_exceeded``.
    """
    earlier = Version.unscoped.filter(hplm=hplm).first()
    fit_warnings = dataset_warnings(earlier, dataset).get("warnings", []) if earlier is not None else []
    with transaction.atomic():
        quota_reserve_version(tenant=hplm.tenant, jobs=JOBS_PER_HPLM_VERSION, reserved_by=reserved_by)
        locked = hplm_lock(hplm=hplm)
        before = hplm_current(locked)
        tables_check(before, param="model")
        inherited = settings_inherited(before, settings)
        config = _config(dataset, locked.tenant, inherited, auto_promote, RootKind(before.root.kind))
        above = before.parent if before.is_quick else before
        assert above is not None  # only a root's version has no parent
        continued = [] if before.is_quick else start_warnings(before, inherited, locked.task)
        if warnings := [*continued, *fit_warnings]:
            config["warnings"] = warnings
        if dataset.task != locked.task:
            raise HmiError(
                ErrorCode.INVALID_FIELD,
                f"{locked.name} does {locked.get_task_display().lower()}; this dataset is for "
                f"{dataset.get_task_display().lower()}.",
                param="dataset",
            )
        version = hplm_version_create(locked, above, dataset, config, actor, policy=before.policy)
        _record(version, actor, verb="model.update")
        return version


@transaction.atomic
def hplm_delete(*, hplm: Hplm, actor: Actor) -> None:
    """Delete a model: it is not served any more, and its name and datasets are free. Its rows stay.

    Raises ``has_dependents`` while its jobs are active, ``not_found`` if it is deleted already.
    """
    locked = hplm_lock(hplm=hplm)
    if active := list(Job.unscoped.filter(version__hplm=locked, state__in=ACTIVE)):
        raise has_dependents(f"Jobs of {locked.name} are active; cancel them or wait", active)
    now = timezone.now()
    for alias in Alias.unscoped.filter(hplm=locked):
        AliasMove.unscoped.create(
            hplm=locked,
            name=alias.name,
            from_version_id=alias.version_id,
            to_version=None,
            reason="model deleted",
            moved_by=person(actor),
            moved_at=now,
        )
        alias.delete()
    for version_id in Version.unscoped.filter(hplm=locked).order_by("pk").values_list("pk", flat=True):
        version_transition(version_id=version_id, from_state=VersionState.READY, to=VersionState.RETIRED)
    Version.unscoped.filter(hplm=locked).update(dataset=None)
    Hplm.unscoped.filter(pk=locked.pk).update(deleted_at=now)
    audit_record(verb="model.delete", subject=str(locked), tenant=locked.tenant, actor=actor)
    manifest_publish_on_commit()


@transaction.atomic
def hplm_rename(*, hplm: Hplm, name: str, actor: Actor) -> Hplm:
    """Give a model another name. Requests by the former name get ``not_found``, and the name is free.

    Usage and the request log keep the name that a request named. Raises ``invalid_field`` (not a name),
    ``conflict`` (the name is taken), ``has_dependents`` while batches call it by its name, ``not_found``.
    """
    require_slug(name)
    quota_lock(tenant=hplm.tenant)
    locked = hplm_lock(hplm=hplm)
    before = locked.name
    if name == before:
        return locked
    hplm_name_check(tenant=locked.tenant, name=name)
    if users := [row for rows in hooks.hplm_callers(locked.tenant, before) for row in rows]:
        raise has_dependents(f"Batches of {before} are active; cancel them or wait", users, param="name")
    hplm.name = locked.name = name
    locked.save(update_fields=["name"])
    audit_record(
        verb="model.rename",
        subject=str(locked),
        tenant=locked.tenant,
        actor=actor,
        detail=change(before, name),
    )
    manifest_publish_on_commit()
    return locked


@transaction.atomic
def hplm_set_description(*, hplm: Hplm, description: str, actor: Actor) -> Hplm:
    """Set or clear the description, shown on the model's page and in its model card.

    Raises ``invalid_field``.
    """
    text = "\n".join(line.rstrip() for line in description.strip().splitlines())
    if len(text) > MAX_DESCRIPTION_LENGTH or not all(sign.isprintable() or sign in "\n\t" for sign in text):
        message = f"This must be text of at most {MAX_DESCRIPTION_LENGTH:,} characters."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param="description")
    hplm.description = text
    hplm.save(update_fields=["description"])
    audit_record(verb="model.describe", subject=str(hplm), tenant=hplm.tenant, actor=actor)
    return hplm


@transaction.atomic
def hplm_pin(*, hplm: Hplm, actor: Actor) -> bool:
    """Keep the versions that the model's aliases point at in the memory of inference workers.

    Returns False if it is pinned already. Raises ``not_found`` (deleted).
    """
    locked = hplm_lock(hplm=hplm)
    if locked.pinned_at is not None:
        return False
    return _set_pinned(locked, timezone.now(), "model.pin", actor)


@transaction.atomic
def hplm_unpin(*, hplm: Hplm, actor: Actor) -> bool:
    """Undo ``hplm_pin``. Returns False if it was not pinned. Raises ``not_found`` (deleted)."""
    locked = hplm_lock(hplm=hplm)
    return locked.pinned_at is not None and _set_pinned(locked, None, "model.unpin", actor)


@transaction.atomic
def version_set_policy(*, version: Version, policy: str, actor: Actor) -> Version:
    """Set at which levels requests to a version of a model are answered if they choose no quality.

    Empty: as the deployment's ``HMI_POLICY`` says. Running processes follow within ``HMI_MODEL_CACHE_S``.
    Raises ``not_found`` (a deleted model), ``invalid_field`` (no policy, or not a version of a model, or of
    a generative one, or a quick one), ``model_not_ready`` (one that reads tables, without tables).
    """
    if policy not in VersionPolicy.values:
        allowed = ", ".join(filter(None, VersionPolicy.values))
        raise HmiError(
            ErrorCode.INVALID_FIELD, f"The policy must be one of {allowed}, or none.", param="policy"
        )
    if version.hplm is None:
        message = f"{version.in_words} has no policy. Only versions of models have one."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param="policy")
    if version.root.kind == RootKind.DECODER:
        message = f"{version.in_words} is generative and uses no lookup tables, so it has no policy."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param="policy")
    if version.is_quick:
        message = f"{version.in_words} is a quick one, which answers from the lookup tables alone."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param="policy")
    if policy in (VersionPolicy.TABLE, VersionPolicy.CASCADE):
        tables_check(version, param="policy")
    hplm = hplm_lock(hplm=version.hplm)
    before, version.policy = version.policy, policy
    Version.unscoped.filter(pk=version.pk).update(policy=policy)
    audit_record(
        verb="version.policy",
        subject=str(version),
        tenant=hplm.tenant,
        actor=actor,
        detail={"policy": change(before or "default", policy or "default")},
    )
    return version


def _set_pinned(hplm: Hplm, pinned_at: datetime | None, verb: str, actor: Actor) -> bool:
    hplm.pinned_at = pinned_at
    hplm.save(update_fields=["pinned_at"])
    audit_record(verb=verb, subject=str(hplm), tenant=hplm.tenant, actor=actor)
    manifest_publish_on_commit()
    return True


def task_check(*, task: str, root: Root) -> RootKind:
    """The kind of the root, if a model of this task can stand on it. Raises ``invalid_field``."""
    kind = root_kind_of(task)
    if root.kind != kind:
        message = (
            f"A model for {Task(task).label.lower()} needs {kind.in_words} as its root; {root.name} is none."
        )
        raise HmiError(ErrorCode.INVALID_FIELD, message, param="parent")
    return kind


def _config(
    dataset: Dataset,
    tenant: Tenant,
    settings: Mapping[str, Any] | None,
    auto_promote: bool,
    root: RootKind,
) -> dict[str, Any]:
    about = dataset_check(dataset=dataset, tenant=tenant)
    checked = settings_check(JobKind.FINE_TUNE, settings, root)
    pet_check(checked, root)
    return {
        "dataset": about,
        "labels": about["labels"],
        "settings": checked,
        "auto_promote": bool(auto_promote),
    }


def hplm_current(hplm: Hplm) -> Version:
    """The version that ``default`` points at. Raises ``model_not_ready`` if it points at none."""
    alias = (
        Alias.unscoped.filter(hplm=hplm, name=DEFAULT_ALIAS)
        .select_related("version__root", "version__parent__root")
        .first()
    )
    if alias is None:
        raise HmiError(
            ErrorCode.MODEL_NOT_READY,
            f"No version of the model {hplm.name} is ready to train further.",
            param="model",
        )
    return alias.version


def hplm_version_create(
    hplm: Hplm,
    above: Version,
    dataset: Dataset,
    config: dict[str, Any],
    actor: Actor,
    *,
    policy: str = VersionPolicy.NONE,
) -> Version:
    """Create the next version of a locked model below ``above``, with the jobs that its config asks for."""
    about = config["dataset"]
    plans = [
        JobPlan(JobKind.FINE_TUNE, {"dataset": about, "settings": config["settings"]}),
        JobPlan(JobKind.EVALUATE, {"dataset": about, "settings": {}}),
    ]
    if config.get("quick"):
        plans = [JobPlan(JobKind.QUICK, {"dataset": about, "settings": {}})]
    return version_create(
        owner=hplm,
        root=above.root,
        parent=above,
        tenant=hplm.tenant,
        dataset=dataset,
        config=config,
        policy=policy,
        plans=plans,
        actor=actor,
    )


def _record(version: Version, actor: Actor, *, verb: str) -> None:
    hplm, about = version.hplm, version.config["dataset"]
    detail = {"version": version.number, "parent": version.parent_id, "dataset": about["name"]}
    audit_record(verb=verb, subject=str(hplm), tenant=version.tenant, actor=actor, detail=detail)
