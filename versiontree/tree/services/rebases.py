"""Rebase models: create a version of each on the newest version of the domain or root that it stands on.

The jobs evaluate the same PET on the new parent, and train it further only if the dev metric fell
(`workers.training.rebase`). As for any version, ``promotion_decision`` alone moves ``default``.
"""

import logging
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from tenants.accounts.models import User
from tenants.audit.services import Actor, audit_record, person
from tenants.base.dispatch import LONG_QUEUE, dispatch
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.models import GENERATIVE_TASKS
from versiontree.tree.models import Domain, Hplm, Root, Version, VersionArtifact
from versiontree.tree.models.artifact import Role
from versiontree.tree.models.version import VersionKind, VersionState
from versiontree.tree.selectors.lineage import BY_PLATFORM, FROM_CHECKPOINT, REBASE
from versiontree.tree.selectors.rebases import Owner, RebaseOffer, hplms_on, rebase_offer, rebase_offers
from versiontree.tree.services.aliases import hplm_lock
from versiontree.tree.services.hplms import hplm_current, hplm_version_create
from versiontree.tree.services.quota_reservations import JOBS_PER_HPLM_VERSION, quota_reserve_version
from versiontree.tree.services.rebase_tasks import REBASE_TASK
from versiontree.tree.services.settings_inheritance import config_inherited, settings_of
from versiontree.tree.services.version_completion import artifacts_attach, stored_artifact, version_finish
from versiontree.tree.services.versions import parent_check, version_create

log = logging.getLogger(__name__)


@transaction.atomic
def hplm_rebase(*, hplm: Hplm, actor: Actor, auto_promote: bool = True, by_platform: bool = False) -> Version:
    """Create the next version of a model, from the PET of its default version, on the newest version of the
    domain or root that that one stands on.

    It inherits the dataset, the settings and the policy. ``by_platform``: no member of the tenant asked for
    it, so its jobs are counted apart from the tenant's own. Raises ``not_found`` (deleted),
    ``invalid_field`` (a generative model), ``model_not_ready`` (no trained version is ready), ``conflict``
    (there is no newer version, it was rebased already, has no dataset, or a version is being built),
    ``quota_exceeded``.
    """
    quota_reserve_version(tenant=hplm.tenant, jobs=JOBS_PER_HPLM_VERSION, by_platform=by_platform)
    locked = hplm_lock(hplm=hplm)
    offer = _offer(locked)
    before = offer.current
    kinds = [VersionKind.ROOT, VersionKind.DOMAIN]
    above = parent_check(parent=offer.target, tenant=locked.tenant, kinds=kinds, rebases=True)
    config = config_inherited(before) | {
        "settings": settings_of(before),
        "auto_promote": auto_promote,
        REBASE: {"id": before.pk, "version": before.number, "onto": offer.onto}
        | (BY_PLATFORM if by_platform else {}),
    }
    if before.dataset is None:
        version = _move_head(before, above, config, actor)
    else:
        version = hplm_version_create(locked, above, before.dataset, config, actor, policy=before.policy)
    detail = {"version": version.number, "from": before.number, "onto": offer.onto}
    audit_record(verb="model.rebase", subject=str(locked), tenant=locked.tenant, actor=actor, detail=detail)
    return version


def _move_head(before: Version, above: Version, config: dict[str, Any], actor: Actor) -> Version:
    """The ready version with the checkpoint's own head on a newer version of the root. It needs no training:
    its PET is empty, and the computed lower layers are the checkpoint's in both."""
    assert before.config.get(FROM_CHECKPOINT), "an offer without a problem has a dataset, or such a head"
    assert before.hplm is not None, "only models are rebased"
    version = version_create(
        owner=before.hplm,
        root=above.root,
        parent=above,
        tenant=before.tenant,
        config=config,
        policy=before.policy,
        plans=[],
        actor=actor,
    )
    link = VersionArtifact.unscoped.select_related("artifact").get(version=before, role=Role.HPLM)
    artifacts_attach(version=version, artifacts=[(Role.HPLM, stored_artifact(link.artifact))])
    version_finish(version=version, metrics={})
    version.refresh_from_db()
    return version


def _offer(hplm: Hplm) -> RebaseOffer:
    """The rebase that is possible for a locked model, or the error that says why there is none."""
    if hplm.task in GENERATIVE_TASKS:
        message = f"{hplm.name} is generative. Its root has no lookup tables, so it is not rebased."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param="model")
    current = hplm_current(hplm)
    building = Version.unscoped.filter(hplm=hplm, state=VersionState.BUILDING).first()
    if building is not None:
        message = f"{building.in_words} is being built. Rebase the model when it is ready."
        raise HmiError(ErrorCode.CONFLICT, message, param="model")
    if current.is_quick:
        message = f"{current.in_words} is a quick one. Train the model before you rebase it."
        raise HmiError(ErrorCode.MODEL_NOT_READY, message, param="model")
    base = current.domain_or_root()
    offer = rebase_offer(current, base)
    if offer is None:
        message = (
            f"{current.in_words} stands on version {base.number} of the {base.kind} {base.name}. There is no"
            " newer one, or it was rebased onto that already."
        )
        raise HmiError(ErrorCode.CONFLICT, message, param="model")
    if offer.problem:
        raise HmiError(ErrorCode.CONFLICT, offer.problem, param="dataset")
    return offer


@dataclass(frozen=True, slots=True)
class RefusedRebase:
    """A model that was not rebased, and why."""

    hplm: Hplm
    error: HmiError


@dataclass(frozen=True, slots=True)
class Rebases:
    """The versions that were created, and the models that were not rebased."""

    versions: list[Version] = field(default_factory=list)
    refused: list[RefusedRebase] = field(default_factory=list)


def hplms_rebase(
    *, hplms: QuerySet[Hplm], actor: Actor, by_platform: bool = False, automatic: bool = False
) -> Rebases:
    """Rebase each of these models for which that is possible. An error of one does not affect the others.

    ``by_platform``: see ``hplm_rebase``. An ``automatic`` rebase that failed is not repeated: a person must
    look at it. Once the quota of a tenant is used up, its other models are left for the next run.
    """
    done = Rebases()
    full: set[int] = set()
    for offer in rebase_offers(hplms):
        tenant = offer.hplm.tenant_id
        if automatic and (offer.tried or offer.problem or tenant in full):
            continue
        try:
            done.versions.append(hplm_rebase(hplm=offer.hplm, actor=actor, by_platform=by_platform))
        except HmiError as error:
            done.refused.append(RefusedRebase(offer.hplm, error))
            if error.code == ErrorCode.QUOTA_EXCEEDED:
                full.add(tenant)
    return done


def owner_rebase_request(*, owner: Owner, actor: Actor) -> int:
    """Have a worker rebase the models of all tenants that stand on a domain or root. Returns how many can
    be."""
    tenant = owner.tenant if isinstance(owner, Domain) else None
    with transaction.atomic():
        audit_record(verb=f"{_kind(owner)}.rebase", subject=owner.name, tenant=tenant, actor=actor)
        user = person(actor)
        arguments = (_kind(owner), owner.pk, user.pk if user else 0)
        transaction.on_commit(partial(dispatch, REBASE_TASK, *arguments, queue=LONG_QUEUE))
    return sum(not offer.problem for offer in rebase_offers(hplms_on(owner, None)))


def owner_rebase(*, kind: str, owner_id: int, user_id: int) -> int:
    """Do what ``owner_rebase_request`` asked for. Returns how many versions were created."""
    rows = Domain.unscoped.all() if kind == VersionKind.DOMAIN else Root.objects.all()
    owner = rows.filter(pk=owner_id).first()
    if owner is None:
        return 0
    actor = User.objects.filter(pk=user_id).first()
    return _logged(hplms_rebase(hplms=hplms_on(owner, None), actor=actor, by_platform=True), str(owner))


def rebases_due() -> int:
    """Rebase the models of the tenants that want it automatically. Returns how many versions were created.

    Called when a version of a domain or root is ready, and periodically, so that what a quota refused or a
    lost message left is done later.
    """
    follows = Hplm.unscoped.filter(deleted_at=None, tenant__auto_rebase=True, tenant__suspended_at=None)
    return _logged(hplms_rebase(hplms=follows, actor=None, by_platform=True, automatic=True), "automatic")


def _kind(owner: Owner) -> str:
    return str(VersionKind.DOMAIN if isinstance(owner, Domain) else VersionKind.ROOT)


def _logged(done: Rebases, what: str) -> int:
    for one in done.refused:
        log.info("%s was not rebased (%s): %s", one.hplm, what, one.error.message)
    return len(done.versions)
