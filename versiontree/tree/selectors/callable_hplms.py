"""The models that a tenant can send requests to, and the inputs that they take."""

from dataclasses import dataclass
from enum import StrEnum

from django.db.models import Q

from tenants.accounts.models import Tenant
from tenants.datasets.models import GENERATIVE_TASKS, Dataset, Task
from tenants.datasets.selectors.uploads import datasets_of
from versiontree.tree.models import Alias, Hplm
from versiontree.tree.models.version import VersionState
from versiontree.tree.resolution import parse_reference, require_encoder, resolve_model
from versiontree.tree.serving_manifest import takes_pairs


class InputKind(StrEnum):
    """What an input of a model consists of."""

    TEXT = "one text"
    PAIR = "two texts"
    QUESTION = "a question and its context"


@dataclass(frozen=True, slots=True)
class CallableHplm:
    """A model with a ready version, by a reference such as ``name@alias``."""

    reference: str
    number: int
    task: Task
    input_kind: InputKind


def callable_hplm(tenant: Tenant, reference: str) -> CallableHplm:
    """The model that a reference names. Raises what ``resolve_model`` and ``require_encoder`` raise."""
    found = require_encoder(resolve_model(tenant, reference))
    return CallableHplm(
        reference, found.version_number, Task(found.task), _input_kind(found.task, pairs=found.pairs)
    )


def callable_hplms(
    tenant: Tenant, *, words: str = "", input_kind: InputKind | None = None, limit: int = 20
) -> list[CallableHplm]:
    """The tenant's models by their aliases, with these words in the reference and this kind of input.

    Without generative models. One query.
    """
    rows = Alias.objects.for_tenant(tenant).filter(hplm__deleted_at=None, version__state=VersionState.READY)
    rows = rows.exclude(hplm__task__in=GENERATIVE_TASKS)
    if input_kind is not None:
        rows = rows.filter(_input_filter(input_kind))
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


def training_dataset(tenant: Tenant, model: CallableHplm) -> Dataset | None:
    """The dataset of the version, with its splits. None if the version was imported."""
    hplm = Hplm.objects.for_tenant(tenant).filter(name=parse_reference(model.reference).hplm, deleted_at=None)
    return datasets_of(tenant).filter(versions__hplm__in=hplm, versions__number=model.number).first()


def _input_kind(task: str, *, pairs: bool) -> InputKind:
    if task == Task.QUESTION_ANSWERING:
        return InputKind.QUESTION
    return InputKind.PAIR if pairs else InputKind.TEXT


def _input_filter(input_kind: InputKind) -> Q:
    questions, pairs = Q(hplm__task=Task.QUESTION_ANSWERING), Q(version__config__dataset__pairs=True)
    if input_kind == InputKind.QUESTION:
        return questions
    return ~questions & (pairs if input_kind == InputKind.PAIR else ~pairs)
