"""Create versions with the jobs that build them, change their state, and check their inputs.

The ``params`` of jobs (ids and checksums, so that later renaming does not matter):

=================  ======================================================================
convert            ``source``, ``name``, ``settings``, ``corpus`` (of an encoder that is converted), and
                   ``head`` if a first model is made of the checkpoint's task head: ``{"pairs"}``
further_pretrain   ``corpus``, ``settings``
build_plot         ``corpus``, ``alpha`` (%) or ``budget_mb``, ``all_unigrams``, ``settings``
quick              ``dataset``, ``settings``
fine_tune          ``dataset``, ``settings``
evaluate           ``dataset``, ``settings``
compact            ``plots``: the digests of the tables to merge, nearest first
=================  ======================================================================

``corpus`` is ``{"id", "name", "sha256"}``; ``dataset`` is ``{"id", "name", "task", "pairs", "labels",
"splits": {split: sha256}}``. A job's input artifacts are those of ``selectors.lineage.build_inputs``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import Max
from django.utils import timezone

from tenants.accounts.models import Tenant
from tenants.audit.services import Actor, person
from tenants.base.errors import ErrorCode, HmiError, not_found
from tenants.datasets.models import Corpus, Dataset
from versiontree.job_settings import MIN_CORPUS_TEXTS
from versiontree.jobs.models import DEFAULT_PRIORITY, Job, JobEvent, JobKind, JobState
from versiontree.jobs.services.transitions import job_dispatch
from versiontree.tree.models import Domain, Hplm, Root, Version
from versiontree.tree.models.version import (
    LEGAL_VERSION_TRANSITIONS,
    VersionKind,
    VersionPolicy,
    VersionState,
)


@dataclass(frozen=True, slots=True)
class JobPlan:
    """The kind and params of a job to create."""

    kind: JobKind
    params: dict[str, Any]


def version_create(
    *,
    owner: Root | Domain | Hplm,
    root: Root,
    parent: Version | None,
    tenant: Tenant | None,
    config: dict[str, Any],
    plans: Sequence[JobPlan],
    actor: Actor,
    corpus: Corpus | None = None,
    dataset: Dataset | None = None,
    policy: str = VersionPolicy.NONE,
) -> Version:
    """Create a version of a root, domain or model with its chain of jobs, and queue the first job.

    Call it inside a transaction that holds the lock on ``owner``, so that numbers are consecutive.
    """
    kind, owner_columns = _kind_and_owner(owner)
    last = Version.unscoped.filter(kind=kind, **owner_columns).aggregate(last=Max("number"))["last"]
    version = Version.unscoped.create(
        kind=kind,
        parent=parent,
        tenant=tenant,
        number=(last or 0) + 1,
        config=config,
        corpus=corpus,
        dataset=dataset,
        policy=policy,
        created_by=person(actor),
        **({"root": root} | owner_columns),
    )
    before: Job | None = None
    for plan in plans:
        before = job_create(version=version, plan=plan, after=before, actor=actor)
    return version


def parent_check(
    *, parent: Version, tenant: Tenant | None, kinds: Sequence[VersionKind], rebases: bool = False
) -> Version:
    """The parent, read again, if this tenant can build upon it.

    Below a retired root a model can only be rebased (``rebases``). Raises ``not_found`` (unknown, another
    tenant's, or of another kind) and ``model_not_ready`` (also for a retired root).
    """
    found = Version.unscoped.select_related("root", "domain").filter(pk=parent.pk).first()
    owners = {None, tenant.pk if tenant else None}
    hidden = tenant is not None and found is not None and _is_unpublished(found)
    if found is None or hidden or found.tenant_id not in owners or found.kind not in kinds:
        wanted = " or ".join(str(kind) for kind in kinds)
        raise not_found(f"version of a {wanted}", param="parent")
    if found.state != VersionState.READY:
        raise HmiError(
            ErrorCode.MODEL_NOT_READY,
            f"{found.in_words} is {found.get_state_display().lower()}; only a ready one can be built upon.",
            param="parent",
        )
    if found.root.retired_at is not None and not rebases:
        raise _retired(found.root)
    return found


def tables_check(version: Version, *, param: str = "parent") -> None:
    """Raise ``model_not_ready`` if the root below a version was not converted: training and evaluation read
    its lookup tables."""
    base = version.domain_or_root()
    if base.is_unconverted:
        message = (
            f"{base.in_words} is served as it is, without lookup tables. Ask an administrator to convert the"
            " root; its models can then be rebased and trained."
        )
        raise HmiError(ErrorCode.MODEL_NOT_READY, message, param=param)


def _retired(root: Root) -> HmiError:
    others = Root.objects.filter(retired_at=None, kind=root.kind).values_list("name", flat=True)
    named = f"Choose another root: {', '.join(others)}." if others else "No other root is there."
    message = f"The root {root.name} is retired, so nothing new is built on it. {named}"
    return HmiError(ErrorCode.MODEL_NOT_READY, message, param="parent", details={"roots": list(others)})


def _is_unpublished(version: Version) -> bool:
    return version.tenant_id is None and version.domain is not None and version.domain.published_at is None


def corpus_check(*, corpus: Corpus, tenant: Tenant | None) -> dict[str, Any]:
    """The params of a job for a corpus that this tenant may use. Raises ``not_found``."""
    if corpus.tenant_id not in {None, tenant.pk if tenant else None}:
        raise not_found("corpus", param="corpus")
    return {"id": corpus.pk, "name": corpus.name, "sha256": corpus.sha256}


def dataset_check(*, dataset: Dataset, tenant: Tenant) -> dict[str, Any]:
    """The params of a job for a dataset of this tenant. Raises ``not_found``."""
    if dataset.tenant_id != tenant.pk:
        raise not_found("dataset", param="dataset")
    return {
        "id": dataset.pk,
        "name": dataset.name,
        "task": dataset.task,
        "pairs": dataset.pairs,
        "labels": dataset.labels,
        "splits": {split.split: split.sha256 for split in dataset.splits.all()},
    }


def _kind_and_owner(owner: Root | Domain | Hplm) -> tuple[VersionKind, dict[str, Any]]:
    if isinstance(owner, Root):
        return VersionKind.ROOT, {"root": owner}
    if isinstance(owner, Domain):
        return VersionKind.DOMAIN, {"domain": owner}
    return VersionKind.HPLM, {"hplm": owner}


def job_create(*, version: Version, plan: JobPlan, after: Job | None, actor: Actor) -> Job:
    """Create a job: queued, or waiting for the job ``after``. Call it under the lock on the version."""
    now = timezone.now()
    first = after is None
    job = Job.unscoped.create(
        kind=plan.kind,
        tenant_id=version.tenant_id,
        version=version,
        after=after,
        state=JobState.QUEUED if first else JobState.WAITING,
        params=plan.params,
        priority=DEFAULT_PRIORITY[plan.kind],
        queued_at=now if first else None,
        dispatched_at=now if first else None,
        created_by=person(actor),
    )
    JobEvent.unscoped.create(job=job, kind=job.state)
    if first:
        job_dispatch(job_id=job.pk, kind=job.kind, priority=job.priority)
    return job


def version_transition(
    *, version_id: int, from_state: VersionState, to: VersionState, **changes: Any
) -> bool:
    """Move a version from one state to another. False if it was not in the first."""
    if to not in LEGAL_VERSION_TRANSITIONS[from_state]:
        raise ValueError(f"illegal version transition {from_state} -> {to}")
    rows = Version.unscoped.filter(pk=version_id, state=from_state)
    return bool(rows.update(state=to, **changes))


def version_lock(*, version_id: int) -> Version:
    """Lock the version's row until the transaction ends, so that its jobs change one at a time.

    To avoid deadlocks it is taken after the lock on the model (``hplm_lock``) and before any job row.
    """
    return Version.unscoped.select_for_update(no_key=True).get(pk=version_id)


def corpus_require_size(*, corpus: Corpus, what: str, words: int = 0) -> None:
    """Raise ``corpus_too_small`` for a corpus with fewer than ``words`` words or ``MIN_CORPUS_TEXTS`` texts.

    ``what`` is what needs the corpus, such as "A domain".
    """
    for unit, count, minimum in (("words", corpus.words, words), ("texts", corpus.rows, MIN_CORPUS_TEXTS)):
        if count < minimum:
            raise HmiError(
                ErrorCode.CORPUS_TOO_SMALL,
                f"{what} needs at least {minimum:,} {_IN_WORDS[unit]}; this corpus has {count:,}.",
                param="corpus",
                details={unit: count, "minimum": minimum},
            )


_IN_WORDS: Final = {"words": "words of text", "texts": "texts, each on a line of its own"}
