"""Register roots."""

from collections.abc import Mapping
from typing import Any, cast

from django.db import IntegrityError, transaction

from tenants.audit.services import Actor, audit_record, person
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.models import Corpus
from versiontree.jobs.models import JobKind
from versiontree.names import require_slug
from versiontree.tree.checkpoints import checkpoint_source
from versiontree.tree.models import Root, Version
from versiontree.tree.services.licenses import license_check, source_url_check
from versiontree.tree.services.versions import (
    JobPlan,
    corpus_check,
    corpus_require_size,
    version_create,
)
from versiontree.tree.tokenizer_fit import checkpoint_warnings
from versiontree.tree.training_settings import DEFAULT_ALPHA, DEFAULT_VECTORS, alpha_check, settings_check


def root_register(
    *,
    name: str,
    source: str,
    corpus: Corpus,
    actor: Actor,
    lower_layers: int | None = None,
    alpha: float = DEFAULT_ALPHA,
    settings: Mapping[str, Any] | None = None,
    vectors: str = DEFAULT_VECTORS,
    license: str = "",  # noqa: A002
    source_url: str = "",
) -> Version:
    """Register a checkpoint as a new root: jobs convert it and build its PLOT from a platform corpus.

    ``lower_layers`` is the number of layers below the cut (default: half of them), ``alpha`` the coverage of
    the PLOT in %, ``vectors`` its number format ("float16" or "int8"). Raises ``invalid_field``, ``conflict``
    (the name), ``not_found``, ``corpus_too_small``, and what ``checkpoint_source`` raises.
    """
    require_slug(name)
    location = checkpoint_source(source)
    license_columns = {"license": license_check(license), "source_url": source_url_check(source_url)}
    checked = settings_check(JobKind.CONVERT, settings)
    if lower_layers is not None:
        checked |= settings_check(JobKind.CONVERT, {"lower_layers": lower_layers})
    corpus_params = corpus_check(corpus=corpus, tenant=None)
    corpus_require_size(corpus=corpus, what="A root")
    coverage = alpha_check(alpha)
    plot = settings_check(JobKind.BUILD_PLOT, {"vectors": vectors})
    config: dict[str, Any] = {
        "source": location,
        "corpus": corpus_params,
        "alpha": coverage,
        "settings": checked,
        **plot,
    }
    config |= checkpoint_warnings(location, corpus, max_tokens=cast("int | None", checked.get("max_tokens")))
    with transaction.atomic():
        root = _create(name, location, actor, license_columns)
        version = version_create(
            owner=root,
            root=root,
            parent=None,
            tenant=None,
            corpus=corpus,
            config=config,
            plans=_plans(name, config, plot),
            actor=actor,
        )
        audit_record(
            verb="root.register", subject=name, tenant=None, actor=actor, detail={"source": location}
        )
    return version


def _plans(name: str, config: Mapping[str, Any], plot: Mapping[str, Any]) -> list[JobPlan]:
    """The jobs of a root whose version has this config; ``plot`` are the settings of its PLOT."""
    corpus_params = config["corpus"]
    convert = {
        "source": config["source"],
        "name": name,
        "corpus": corpus_params,
        "settings": config["settings"],
    }
    build = {"corpus": corpus_params, "alpha": config["alpha"], "all_unigrams": True, "settings": dict(plot)}
    return [JobPlan(JobKind.CONVERT, convert), JobPlan(JobKind.BUILD_PLOT, build)]


def _create(name: str, source: str, actor: Actor, license_columns: Mapping[str, str]) -> Root:
    try:
        with transaction.atomic():
            return Root.objects.create(name=name, source=source, created_by=person(actor), **license_columns)
    except IntegrityError as error:
        raise HmiError(
            ErrorCode.CONFLICT, f"There is a root called {name!r} already.", param="name"
        ) from error
