"""The models and base models that a tenant can send requests to, and the inputs that they take."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from django.db.models import Q

from tenants.accounts.models import Tenant
from tenants.datasets.models import Dataset, Task
from tenants.datasets.selectors.uploads import datasets_of
from versiontree.job_settings import DecoderTrainingSettings
from versiontree.tree.models import Alias, Hplm, Version
from versiontree.tree.models.version import VersionState
from versiontree.tree.resolution import parse_reference, resolve_model
from versiontree.tree.selectors.callable_roots import base_task, callable_root_versions_for
from versiontree.tree.serving_manifest import takes_pairs


class InputKind(StrEnum):
    """What an input of a model consists of."""

    TEXT = "one text"
    PAIR = "two texts"
    QUESTION = "a question and its context"
    PROMPT = "a prompt"
    CHAT = "a chat"
    EMBEDDING = "a text to embed"

    @property
    def is_generative(self) -> bool:
        """Whether the model writes text."""
        return self in (InputKind.PROMPT, InputKind.CHAT)


KIND_BY_TASK: Final = {
    Task.QUESTION_ANSWERING: InputKind.QUESTION,
    Task.GENERATION: InputKind.PROMPT,
    Task.CHAT: InputKind.CHAT,
    Task.EMBEDDING: InputKind.EMBEDDING,
}
"""The tasks that decide it. Models for the others read one text or two, as their dataset has."""


@dataclass(frozen=True, slots=True)
class CallableHplm:
    """A model with a ready version, by a reference such as ``name@alias``, and the name of its root. A base
    model is a root itself."""

    reference: str
    number: int
    task: Task
    input_kind: InputKind
    root: str
    is_base: bool = False

    def full_name(self, tenant: Tenant) -> str:
        """The name by which the tenant's programs call it."""
        has_scope = self.is_base or "/" in self.reference
        return self.reference if has_scope else f"{tenant.slug}/{self.reference}"

    def as_completion(self) -> "CallableHplm":
        """A decoder root that chats, as one that completes prompts."""
        return replace(self, task=Task.GENERATION, input_kind=InputKind.PROMPT)


def callable_hplm(tenant: Tenant, reference: str) -> CallableHplm:
    """The model that a reference names. Raises what ``resolve_model`` raises."""
    found = resolve_model(tenant, reference)
    kind = _input_kind(found.task, pairs=found.pairs)
    task = Task(found.task)
    return CallableHplm(reference, found.version_number, task, kind, found.root, found.is_base)


def callable_hplms(
    tenant: Tenant, *, words: str = "", input_kind: InputKind | None = None, limit: int = 20
) -> list[CallableHplm]:
    """The tenant's models by their aliases, with these words in the reference and this kind of input.

    One query.
    """
    rows = Alias.objects.for_tenant(tenant).filter(hplm__deleted_at=None, version__state=VersionState.READY)
    if input_kind is not None:
        rows = rows.filter(_input_filter(input_kind))
    for word in words.replace("@", " ").split():
        rows = rows.filter(Q(hplm__name__icontains=word) | Q(name__icontains=word))
    chosen = rows.select_related("hplm", "version__root").order_by("hplm__name", "name")[:limit]
    return [
        CallableHplm(
            f"{alias.hplm.name}@{alias.name}",
            alias.version.number,
            Task(alias.hplm.task),
            _input_kind(alias.hplm.task, pairs=takes_pairs(alias.hplm.task, alias.version.config)),
            alias.version.root.name,
        )
        for alias in chosen
    ]


def callable_bases(
    tenant: Tenant, *, words: str = "", input_kind: InputKind | None = None
) -> list[CallableHplm]:
    """The base models that the tenant can call, with these words in their name and this kind of input. One
    query."""
    rows = callable_root_versions_for(tenant)
    for word in words.split():
        rows = rows.filter(root__name__icontains=word)
    bases = []
    for version in rows:
        name, task = version.root.name, base_task(version)
        base = CallableHplm(name, version.number, task, _input_kind(task, pairs=False), name, is_base=True)
        bases.append(base.as_completion() if task == Task.CHAT and input_kind == InputKind.PROMPT else base)
    return [base for base in bases if input_kind in (None, base.input_kind)]


def answer_tokens(tenant: Tenant, model: CallableHplm) -> int | None:
    """How many tokens the answers of the model's evaluation have at most; None for a base model, or if it is
    not known."""
    if model.is_base:
        return None
    rows = Version.objects.for_tenant(tenant).filter(
        hplm__name=parse_reference(model.reference).hplm, hplm__deleted_at=None, number=model.number
    )
    version = rows.first()
    settings = version.config.get("settings", {}) if version is not None else {}
    found = settings.get("new_tokens", DecoderTrainingSettings().new_tokens)
    return int(found) if isinstance(found, int) else None


def training_dataset(tenant: Tenant, model: CallableHplm) -> Dataset | None:
    """The dataset of the version, with its splits. None if the version was imported."""
    hplm = Hplm.objects.for_tenant(tenant).filter(name=parse_reference(model.reference).hplm, deleted_at=None)
    return datasets_of(tenant).filter(versions__hplm__in=hplm, versions__number=model.number).first()


def _input_kind(task: str, *, pairs: bool) -> InputKind:
    return KIND_BY_TASK.get(Task(task), InputKind.PAIR if pairs else InputKind.TEXT)


def _input_filter(input_kind: InputKind) -> Q:
    tasks = [task for task, kind in KIND_BY_TASK.items() if kind == input_kind]
    if tasks:
        return Q(hplm__task__in=tasks)
    pairs = Q(version__config__dataset__pairs=True)
    return ~Q(hplm__task__in=list(KIND_BY_TASK)) & (pairs if input_kind == InputKind.PAIR else ~pairs)
