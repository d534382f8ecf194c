"""Which of a tenant's models can be asked, and what each of them reads."""

from dataclasses import dataclass
from enum import StrEnum

from django.db.models import Q

from tenants.accounts.models import Tenant
from tenants.datasets.models import Dataset, Task
from tenants.datasets.selectors.uploads import datasets_of
from versiontree.tree.models import Alias, Hplm
from versiontree.tree.models.version import VersionState
from versiontree.tree.resolution import parse_reference, resolve_model
from versiontree.tree.serving_manifest import takes_pairs


class InputKind(StrEnum):
    """What an input is made of. Models that read the same can be asked the same."""

    TEXT = "one text"
    PAIR = "two texts"
    QUESTION = "a question and its context"


@dataclass(frozen=True, slots=True)
class CallableHplm:
    """A model that can answer: how it is referred to, and what it is."""

    reference: str
    number: int
    task: Task
    reads: InputKind


def callable_hplm(tenant: Tenant, reference: str) -> CallableHplm:
    """What a reference means for the tenant. Raises what ``resolve_model`` raises."""
    found = resolve_model(tenant, reference)
    return CallableHplm(
        reference, found.version_number, Task(found.task), _input_kind(found.task, pairs=found.pairs)
    )


def callable_hplms(
    tenant: Tenant, *, words: str = "", reads: InputKind | None = None, limit: int = 20
) -> list[CallableHplm]:
    """The first aliases of the tenant's models, by name, of those that have these words in their reference
    and read this; one query."""
    rows = Alias.objects.for_tenant(tenant).filter(hplm__deleted_at=None, version__state=VersionState.READY)
    if reads is not None:
        rows = rows.filter(_input_filter(reads))
    for word in words.replace("@", " ").split():
        rows = rows.filter(Q(hplm__name__icontains=word) | Q(name__icontains=word))
    chosen = rows.select_related("hplm", "version").order_by("hplm__name", "name")[:limit]
    return [
        CallableHplm(
            f"{alias.hplm.name}@{alias.name}",
            alias.version.number,
            Task(alias.hplm.task),
            _input_kind(alias.hplm.task, pairs=takes_pairs(alias.hplm.task, alias.version.config)),
        )
        for alias in chosen
    ]


def training_dataset(tenant: Tenant, offer: CallableHplm) -> Dataset | None:
    """What the version that answers learned from, with its splits; None of one that came from elsewhere."""
    hplm = Hplm.objects.for_tenant(tenant).filter(name=parse_reference(offer.reference).hplm, deleted_at=None)
    return datasets_of(tenant).filter(versions__hplm__in=hplm, versions__number=offer.number).first()


def _input_kind(task: str, *, pairs: bool) -> InputKind:
    if task == Task.QUESTION_ANSWERING:
        return InputKind.QUESTION
    return InputKind.PAIR if pairs else InputKind.TEXT


def _input_filter(reads: InputKind) -> Q:
    questions, pairs = Q(hplm__task=Task.QUESTION_ANSWERING), Q(version__config__dataset__pairs=True)
    if reads == InputKind.QUESTION:
        return questions
    return ~questions & (pairs if reads == InputKind.PAIR else ~pairs)
