"""Register roots, and convert them again."""

from collections.abc import Mapping
from typing import Any, cast

from django.db import IntegrityError, transaction

from tenants.audit.services import Actor, audit_record, person
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.models import Corpus
from versiontree.jobs.models import JobKind
from versiontree.names import require_slug
from versiontree.tree.checkpoint_report import supported_checkpoint
from versiontree.tree.checkpoints import checkpoint_source
from versiontree.tree.models import Root, RootKind, Version
from versiontree.tree.models.version import CONVERT, VersionKind, VersionState
from versiontree.tree.selectors.lineage import FIRST_MODEL
from versiontree.tree.services.first_models import HEAD, first_model_check
from versiontree.tree.services.licenses import license_check, source_url_check
from versiontree.tree.services.settings_inheritance import config_inherited
from versiontree.tree.services.versions import (
    JobPlan,
    corpus_check,
    corpus_require_size,
    version_create,
)
from versiontree.tree.tokenizer_fit import checkpoint_warnings
from versiontree.tree.training_settings import (
    DEFAULT_ALPHA,
    DEFAULT_VECTORS,
    SettingValue,
    rows_of,
    settings_check,
    table_check,
)


def root_register(
    *,
    name: str,
    source: str,
    actor: Actor,
    kind: str = RootKind.ENCODER,
    corpus: Corpus | None = None,
    lower_layers: int | None = None,
    alpha: float | None = None,
    budget_mb: float | None = None,
    settings: Mapping[str, Any] | None = None,
    vectors: str = DEFAULT_VECTORS,
    license: str = "",  # noqa: A002
    source_url: str = "",
    convert: bool = True,
    first_model: str = "",
    pairs: bool = False,
) -> Version:
    """Register a checkpoint as a new root.

    Jobs convert an encoder and build its PLOT from a platform corpus: ``alpha`` is the coverage of the PLOT
    in % (default: ``DEFAULT_ALPHA``, as one table serves all models of the root), ``budget_mb`` in its place
    the size, and ``vectors`` the number format ("float16" or "int8"). A job copies a decoder, which has
    neither corpus nor PLOT. ``lower_layers`` is the number of layers below the cut: by default that of an
    encoder's preset (the setting ``cut``), and a third of a decoder's.

    Without ``convert`` an encoder is copied, too: its models are computed in full, and cannot be trained
    before ``root_convert``. ``first_model`` is the name, ``tenant/model``, of a model that is made of the
    checkpoint's task head; with ``pairs`` its inputs are two texts. It is ready with the root.

    Raises ``invalid_field``, ``missing_field`` (the corpus), ``conflict`` (the name), ``not_found``,
    ``corpus_too_small``, and what ``supported_checkpoint`` and ``first_model_check`` raise.
    """
    require_slug(name)
    chosen = _kind_check(kind)
    location = supported_checkpoint(source, chosen)
    license_columns = {"license": license_check(license), "source_url": source_url_check(source_url)}
    checked = settings_check(JobKind.CONVERT, settings, chosen)
    if lower_layers is not None:
        checked |= settings_check(JobKind.CONVERT, {"lower_layers": lower_layers}, chosen)
    config: dict[str, Any] = {"source": location, "settings": checked}
    if _is_converted(chosen, convert=convert, first_model=first_model, corpus=corpus):
        longest = cast("int | None", checked.get("max_tokens"))
        table = table_check(
            alpha=alpha, budget_mb=budget_mb, vectors=vectors, default={"alpha": DEFAULT_ALPHA}
        )
        config |= _table_config(location, corpus, table, longest)
    elif chosen == RootKind.ENCODER:
        config[CONVERT] = False
    with transaction.atomic():
        if first_model:
            config[FIRST_MODEL] = first_model_check(reference=first_model, pairs=pairs, source=location)
        root = _create(name, chosen, location, actor, license_columns)
        version = version_create(
            owner=root,
            root=root,
            parent=None,
            tenant=None,
            corpus=corpus,
            config=config,
            plans=_plans(root, config),
            actor=actor,
        )
        detail = {"kind": str(chosen), "source": location}
        audit_record(verb="root.register", subject=name, tenant=None, actor=actor, detail=detail)
    return version


def _is_converted(kind: RootKind, *, convert: bool, first_model: str, corpus: Corpus | None) -> bool:
    """Whether jobs convert a root instead of copying it.

    Raises ``invalid_field`` for what a root that is copied does not take.
    """
    if kind == RootKind.DECODER and (first_model or not convert):
        param = FIRST_MODEL if first_model else CONVERT
        message = "A decoder is copied as it is, and has no task head."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param=param)
    if kind == RootKind.ENCODER and convert:
        return True
    if corpus is not None:
        message = "A decoder is not converted, so it takes no corpus."
        if kind == RootKind.ENCODER:
            message = "A root that is served as it is takes no corpus. Convert it, or leave the corpus out."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param="corpus")
    return False


@transaction.atomic
def root_convert(*, root: Root, actor: Actor, corpus: Corpus | None = None) -> Version:
    """Create the next version of an encoder root: jobs convert its checkpoint, as this release does, with the
    settings of its newest version and with ``corpus``, by default the corpus of that version.

    Earlier versions, and what is built on them, stay as they are; models follow by a rebase. Raises
    ``invalid_field`` (a decoder), ``missing_field`` (the corpus of a root that was not converted),
    ``conflict`` (a version is being built, or the root was imported), ``not_found``, ``corpus_too_small``,
    and what ``checkpoint_source`` raises.
    """
    locked = Root.objects.select_for_update(no_key=True).get(pk=root.pk)
    if locked.kind == RootKind.DECODER:
        message = f"{locked.name} is a decoder, which is not converted."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param="root")
    newest = Version.unscoped.filter(root=locked, kind=VersionKind.ROOT).latest("number")
    if newest.state == VersionState.BUILDING:
        message = f"Version {newest.number} of {locked.name} is being built."
        raise HmiError(ErrorCode.CONFLICT, message, param="root")
    if "source" not in newest.config or (newest.corpus is None and not newest.is_unconverted):
        message = f"{locked.name} was imported without its checkpoint. Register the checkpoint as a new root."
        raise HmiError(ErrorCode.CONFLICT, message, param="root")
    checkpoint_source(newest.config["source"], RootKind.ENCODER)
    config = config_inherited(newest)
    chosen = corpus or newest.corpus
    if chosen is None:
        message = (
            f"{locked.name} is served as it is. Name a corpus of the platform to convert it with:"
            f" POST /api/v1/platform/roots/{locked.name}/convert takes one."
        )
        raise HmiError(ErrorCode.MISSING_FIELD, message, param="corpus")
    if chosen != newest.corpus or newest.is_unconverted:
        config |= _table_config(
            config["source"], chosen, _table_of(config), config["settings"].get("max_tokens")
        )
        config.pop(CONVERT, None)
    version = version_create(
        owner=locked,
        root=locked,
        parent=None,
        tenant=None,
        corpus=chosen,
        config=config,
        plans=_plans(locked, config),
        actor=actor,
    )
    detail = {"version": version.number, "source": config["source"]}
    audit_record(verb="root.convert", subject=locked.name, tenant=None, actor=actor, detail=detail)
    return version


def _kind_check(kind: str) -> RootKind:
    if kind not in RootKind.values:
        raise HmiError(
            ErrorCode.INVALID_FIELD, f"The kind must be one of: {', '.join(RootKind.values)}.", param="kind"
        )
    return RootKind(kind)


def _table_of(config: Mapping[str, Any]) -> dict[str, SettingValue]:
    """The settings of the table of a version with this config; the defaults if it has none."""
    return table_check(
        alpha=config.get("alpha"),
        budget_mb=config.get("budget_mb"),
        vectors=config.get("vectors", DEFAULT_VECTORS),
        default={"alpha": DEFAULT_ALPHA},
    )


def _table_config(
    source: str, corpus: Corpus | None, table: Mapping[str, SettingValue], max_tokens: int | None
) -> dict[str, Any]:
    """The part of an encoder root's config that its table is built with."""
    if corpus is None:
        raise HmiError(
            ErrorCode.MISSING_FIELD, "An encoder is converted with a corpus of the platform.", param="corpus"
        )
    corpus_params = corpus_check(corpus=corpus, tenant=None)
    corpus_require_size(corpus=corpus, what="A root")
    return {
        "corpus": corpus_params,
        **table,
        **checkpoint_warnings(source, corpus, max_tokens=max_tokens),
    }


def _plans(root: Root, config: Mapping[str, Any]) -> list[JobPlan]:
    """The jobs of a root whose version has this config."""
    convert = {"source": config["source"], "name": root.name, "settings": config["settings"]}
    if FIRST_MODEL in config:
        convert[HEAD] = {"pairs": config[FIRST_MODEL]["pairs"]}
    if root.kind == RootKind.DECODER or config.get(CONVERT) is False:
        return [JobPlan(JobKind.CONVERT, convert)]
    corpus_params = config["corpus"]
    build = {
        "corpus": corpus_params,
        **rows_of(config),
        "all_unigrams": True,
        "settings": {"vectors": config["vectors"]},
    }
    return [
        JobPlan(JobKind.CONVERT, {**convert, "corpus": corpus_params}),
        JobPlan(JobKind.BUILD_PLOT, build),
    ]


def _create(name: str, kind: RootKind, source: str, actor: Actor, license_columns: Mapping[str, str]) -> Root:
    try:
        with transaction.atomic():
            return Root.objects.create(
                name=name, kind=kind, source=source, created_by=person(actor), **license_columns
            )
    except IntegrityError as error:
        raise HmiError(ErrorCode.CONFLICT, f"A root named {name!r} already exists.", param="name") from error
