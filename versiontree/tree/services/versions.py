"""Creating versions with the jobs that build them, their state changes, and checks of their inputs.

What a job's ``params`` hold (ids and checksums, so that a job does not depend on what is renamed later):

=================  ======================================================================
convert            ``source``, ``name``, ``corpus``, ``settings``
further_pretrain   ``corpus``, ``settings``
build_plot         ``corpus``, ``alpha`` (%), ``all_unigrams``, ``settings``
fine_tune          ``dataset``, ``settings``
evaluate           ``dataset``, ``settings``
compact            ``plots``: the digests of the tables to be merged, nearest first
grow               ``tables``: the digests of the tables whose misses count, ``settings``
=================  ======================================================================

``corpus`` is ``{"id", "name", "sha256"}``; ``dataset`` is ``{"id", "name", "task", "pairs", "labels",
"splits": {split: sha256}}``. The files a job works on besides are those of
``selectors.build_inputs(version)``.
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
from versiontree.jobs.models import DEFAULT_PRIORITY, Job, JobEvent, JobKind, JobState
from versiontree.jobs.services.transitions import job_dispatch
from versiontree.tree.models import Domain, Hplm, Root, Version
from versiontree.tree.models.version import LEGAL_VERSION_TRANSITIONS, VersionKind, VersionState


@dataclass(frozen=True, slots=True)
class JobPlan:
    """A job to be made."""

    kind: JobKind
    params: dict[str, Any]


def version_create(
    *,
    of: Root | Domain | Hplm,
    root: Root,
    parent: Version | None,
    tenant: Tenant | None,
    config: dict[str, Any],
    plans: Sequence[JobPlan],
    actor: Actor,
    corpus: Corpus | None = None,
    dataset: Dataset | None = None,
) -> Version:
    """A new version of a root, domain or model and its chain of jobs, the first of them queued.

    To be called inside a transaction that holds the row of ``of``, so that numbers follow one another.
    """
    kind, owner = _kind_and_owner(of)
    last = Version.unscoped.filter(kind=kind, **owner).aggregate(last=Max("number"))["last"]
    version = Version.unscoped.create(
        kind=kind,
        parent=parent,
        tenant=tenant,
        number=(last or 0) + 1,
        config=config,
        corpus=corpus,
        dataset=dataset,
        created_by=person(actor),
        **({"root": root} | owner),
    )
    before: Job | None = None
    for plan in plans:
        before = job_create(version=version, plan=plan, after=before, actor=actor)
    return version


def parent_check(*, parent: Version, tenant: Tenant | None, kinds: Sequence[VersionKind]) -> Version:
    """The parent as the database has it now, fit for a child of this owner.

    Raises ``not_found`` (absent, somebody else's, or of another kind) and ``model_not_ready``.
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
    return found


def _is_unpublished(version: Version) -> bool:
    return version.tenant_id is None and version.domain is not None and version.domain.published_at is None


def corpus_check(*, corpus: Corpus, tenant: Tenant | None) -> dict[str, Any]:
    """What a job keeps of a corpus that this owner may use; else ``not_found``."""
    if corpus.tenant_id not in {None, tenant.pk if tenant else None}:
        raise not_found("corpus", param="corpus")
    return {"id": corpus.pk, "name": corpus.name, "sha256": corpus.sha256}


def dataset_check(*, dataset: Dataset, tenant: Tenant) -> dict[str, Any]:
    """What a job keeps of a dataset that this tenant may use; else ``not_found``."""
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


def _kind_and_owner(of: Root | Domain | Hplm) -> tuple[VersionKind, dict[str, Any]]:
    if isinstance(of, Root):
        return VersionKind.ROOT, {"root": of}
    if isinstance(of, Domain):
        return VersionKind.DOMAIN, {"domain": of}
    return VersionKind.HPLM, {"hplm": of}


def job_create(*, version: Version, plan: JobPlan, after: Job | None, actor: Actor) -> Job:
    """A job of a version: queued, or waiting for the one before it. For a transaction that holds its row."""
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
        job_dispatch(job_id=job.pk, priority=job.priority)
    return job


def version_transition(
    *, version_id: int, from_state: VersionState, to: VersionState, **changes: Any
) -> bool:
    """Move a version from one state to another; False when it was not in the first."""
    if to not in LEGAL_VERSION_TRANSITIONS[from_state]:
        raise ValueError(f"illegal version transition {from_state} -> {to}")
    rows = Version.unscoped.filter(pk=version_id, state=from_state)
    return bool(rows.update(state=to, **changes))


def version_lock(*, version_id: int) -> Version:
    """The version, its row locked until the transaction ends: the jobs of one version change one at a time.

    Always taken before a job row is touched, and after the model's (``hplm_lock``), so that two
    transactions cannot wait for each other.
    """
    return Version.unscoped.select_for_update(no_key=True).get(pk=version_id)


MIN_TEXTS: Final = 8
"""What every job that reads a corpus asks for; `workers.training.corpus` has the same number, which it cannot
take from here."""


def corpus_require_size(*, corpus: Corpus, what: str, words: int = 0) -> None:
    """Refuse a corpus of too few words or texts before a job is queued that would fail: ``corpus_too_small``.

    ``what`` is to be built from it, such as "A domain"; ``words`` is the least that it needs.
    """
    for unit, having, least in (("words", corpus.words, words), ("texts", corpus.rows, MIN_TEXTS)):
        if having < least:
            raise HmiError(
                ErrorCode.CORPUS_TOO_SMALL,
                f"{what} needs at least {least:,} {_IN_WORDS[unit]}; this corpus has {having:,}.",
                param="corpus",
                details={unit: having, "minimum": least},
            )


_IN_WORDS: Final = {"words": "words of text", "texts": "texts, each on a line of its own"}
