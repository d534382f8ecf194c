"""The page of a version: metrics, lookup tables, settings, lineage and exports."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from frontend.presenters.cascade import CascadeSummary, cascade_profile, cascade_summary
from frontend.presenters.decoder import decoder_facts
from frontend.presenters.evaluation_answers import samples_of
from frontend.presenters.formatting import key_label, setting_value
from frontend.presenters.metrics import LEVEL_NAMES, learning_curves, level_order, measured_of, trials_of
from frontend.presenters.pretraining import TableRow, perplexity_rows, stage_tables
from frontend.presenters.rebases import rebased
from frontend.presenters.versions import source_name
from inference.errors import HplmError
from tenants.accounts.models import Tenant
from tenants.base.plurals import counted
from versiontree.tree.models import Artifact, Hplm, Root, RootKind, Version
from versiontree.tree.models.artifact import Role
from versiontree.tree.models.version import VersionKind, VersionState
from versiontree.tree.selectors.lineage import LineageStep, compacted_versions, without_compacted
from versiontree.tree.selectors.versions import as_mapping, version_warnings
from versiontree.tree.training_fields import setting_label
from versiontree.tree.training_settings import SETTINGS_CLASSES, setting_specs

HIDDEN_SETTINGS = {"device", "precision", "lower_mode"}
_SETTINGS = (name for kind, root in SETTINGS_CLASSES for name in setting_specs(kind, root) if name != "seed")
_SETTING_ORDER = [*dict.fromkeys(_SETTINGS), "seed"]
PARTS = {
    Role.ROOT: "Upper layers",
    Role.LOWER: "Lower layers",
    Role.PLOT: "Lookup table",
    Role.HPLM: "Adapter and classifier",
    Role.CASCADE: "Balanced mode",
}
DECODER_PARTS = {Role.ROOT: "Decoder", Role.HPLM: "LoRA"}
"""Those that have another name below a decoder root."""


@dataclass(frozen=True, slots=True)
class LineageRow:
    """A version in the lineage. `url` is empty for the version of the page.

    `source` is the name of its training data; `source_url` is empty if that belongs to another tenant.
    """

    step: LineageStep
    url: str
    source: str
    source_url: str
    seed: str


@dataclass(frozen=True, slots=True)
class Export:
    """A download of a version. `size` is that of its artifacts, in bytes."""

    label: str
    url: str
    size: int


def version_context(tenant: Tenant, steps: Sequence[LineageStep]) -> dict[str, Any]:
    """Return the context of the page; `steps` lead from the version to its root."""
    version, metrics = steps[0].version, steps[0].version.metrics
    tuned, converted = metrics.get("fine_tune", {}), metrics.get("convert", {})
    pretrained = metrics.get("further_pretrain", {})
    cascade, fault = _cascade(steps[0])
    learnt_from = {"class_counts": tuned["class_counts"]} if "class_counts" in tuned else {}
    return {
        "version": version,
        "measured": measured_of({**(metrics.get("evaluate") or {}), **learnt_from}),
        "cascade": cascade,
        "decoder": decoder_facts(steps),
        "curves": learning_curves(tuned),
        "trials": trials_of(tuned),
        "samples": samples_of(tuned),
        "stages": stage_tables(converted) or stage_tables(pretrained),
        "perplexities": perplexity_rows(pretrained),
        "tables": table_rows(steps),
        "settings": settings_of(version),
        "imported": _imported(version.config),
        "rebased": rebased(version),
        "lineage": lineage_rows(tenant, steps),
        "artifacts": _artifacts(steps[0]),
        "licensed": _licensed(steps),
        "exports": exports_of(tenant, steps),
        "warnings": [*fault, *_leaks(version), *version_warnings(version)],
    }


def _cascade(step: LineageStep) -> tuple[CascadeSummary | None, list[str]]:
    """Return the cascade of a model version, if it has one, and why it cannot be read."""
    try:
        profile = cascade_profile(step)
    except HplmError as error:
        return None, [error.message]
    return (cascade_summary(profile, step.version.metrics) if profile else None), []


def lineage_rows(tenant: Tenant, steps: Sequence[LineageStep]) -> list[LineageRow]:
    """Return the version and its ancestors up to the root."""
    return [
        LineageRow(
            step,
            "" if step is steps[0] else version_url(tenant, step.version),
            source_name(step.version),
            _source_url(tenant, step.version),
            _seed(step.version),
        )
        for step in steps
    ]


def _source_url(tenant: Tenant, version: Version) -> str:
    for name, upload in (("dataset", version.dataset), ("corpus", version.corpus)):
        if upload is not None and upload.tenant_id == tenant.pk:
            return reverse(f"frontend:{name}", args=[tenant.slug, upload.pk])
    return ""


def _seed(version: Version) -> str:
    """Return the seed of the training job; empty if it reported none."""
    reports = (version.metrics.get(name) for name in ("fine_tune", "further_pretrain", "convert"))
    settings_of = [as_mapping(as_mapping(report).get("settings")) for report in reports if report]
    found = next((settings["seed"] for settings in settings_of if "seed" in settings), None)
    return "" if found is None else str(found)


def exports_of(tenant: Tenant, steps: Sequence[LineageStep]) -> list[Export]:
    """Return the downloads of a ready version: alone, with its parents, or as an adapter."""
    version = steps[0].version
    if version.state != VersionState.READY:
        return []
    url = reverse("frontend:version_export", args=[tenant.slug, version.pk])
    parts = [steps[0], *(step for step in steps[1:] if step.version.kind != VersionKind.HPLM)]
    if len(parts) == 1:
        return [Export("Export", url, parts[0].size)]
    held = {artifact.pk: artifact.size for step in parts for artifact in step.artifacts.values()}
    return [
        Export("Export", url, parts[0].size),
        Export("Export with base models", f"{url}?branch=1", sum(held.values())),
        *_adapters(version, url, parts[0].size),
    ]


def _adapters(version: Version, url: str, size: int) -> list[Export]:
    """Return the download for the adapter library that supports this PET, if any."""
    if version.kind != VersionKind.HPLM:
        return []
    pet = as_mapping(version.config.get("settings"))
    bottleneck = bool(pet.get("adapter") or pet.get("output_adapter"))
    if not bottleneck:
        return [Export("Export for PEFT", f"{url}?format=peft", size)]
    others = any(pet.get(name, True) for name in ("lora", "biases", "norms"))
    return [] if others else [Export("Export for AdapterHub", f"{url}?format=adapterhub", size)]


def version_url(tenant: Tenant, version: Version) -> str:
    """Return the URL of a version."""
    kind, number = VersionKind(version.kind), version.number
    if kind == VersionKind.HPLM and version.hplm is not None:
        return reverse("frontend:model_version", args=[tenant.slug, version.hplm.name, number])
    if kind == VersionKind.DOMAIN:
        return reverse("frontend:domain_version", args=[tenant.slug, version.domain_id, number])
    return reverse("frontend:root_version", args=[tenant.slug, version.root.name, number])


def table_rows(steps: Sequence[LineageStep]) -> list[TableRow]:
    """Return the lookup tables of a version, nearest first."""
    return [
        TableRow(
            name=step.version.name,
            number=step.version.number,
            rows=built.get("rows"),
            bytes=step.artifacts[Role.PLOT].size,
            covers=_covers(built.get("coverage")),
            vectors=str(built.get("vectors", "")),
            levels=_levels(built.get("levels")),
            of_domain=step.version.kind == VersionKind.DOMAIN,
        )
        for step in _read(steps)
        if Role.PLOT in step.artifacts
        for built in [_table_report(step.version)]
    ]


def _read(steps: Sequence[LineageStep]) -> list[LineageStep]:
    """Return the steps whose tables are read. A compacted table replaces those it merged."""
    by_pk = {step.version.pk: step for step in steps}
    held = {pk: compacted_versions(step.version.config) for pk, step in by_pk.items()}
    return [by_pk[pk] for pk in without_compacted(by_pk, held)]


def _table_report(version: Version) -> Mapping[str, Any]:
    """Return the report of the job that last wrote the table of a version."""
    metrics = version.metrics
    return metrics.get("compact") or metrics.get("grow") or metrics.get("build_plot") or {}


def _covers(found: Any) -> list[tuple[str, float]]:
    shares = as_mapping(found)
    return [
        (LEVEL_NAMES.get(name, key_label(name)), shares[name]) for name in sorted(shares, key=level_order)
    ]


def _levels(found: Any) -> str:
    counts = as_mapping(found)
    return ", ".join(
        counted(counts[name], LEVEL_NAMES.get(name, key_label(name)))
        for name in sorted(counts, key=level_order)
        if isinstance(counts[name], int) and counts[name]
    )


def settings_of(version: Version) -> list[tuple[str, str]]:
    """Return the training settings: as reported by the job, otherwise as requested. A quick version has none
    but what its fit chose."""
    config, metrics = version.config, version.metrics
    if version.is_quick:
        return _fit_of(as_mapping(metrics.get("fine_tune")))
    reports = [metrics.get(job, {}) for job in ("fine_tune", "convert", "further_pretrain")]
    reported = next((report["settings"] for report in reports if report.get("settings")), None)
    given: Mapping[str, Any] = reported or config.get("settings") or {}
    rows = [
        (setting_label(name), setting_value(value))
        for name, value in sorted(given.items(), key=lambda item: _setting_order(item[0]))
        if name not in HIDDEN_SETTINGS
    ]
    best = next((report["best_epoch"] for report in reports if report.get("best_epoch")), None)
    return [*rows, *([("best epoch", str(best))] if best else [])]


def _fit_of(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the penalty of a quick version's head, and how many of the training rows it read."""
    read, rows = report.get("fitted_rows"), report.get("train_rows")
    found = [("penalty", setting_value(report["penalty"]))] if "penalty" in report else []
    return found + ([("training rows read", f"{read:,} of {rows:,}")] if read and rows else [])


def _setting_order(name: str) -> tuple[int, str]:
    """Return the sort key of a setting: the order of the forms; others last, by name."""
    return (_SETTING_ORDER.index(name) if name in _SETTING_ORDER else len(_SETTING_ORDER), name)


def _imported(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the metadata of an imported adapter."""
    return {
        key_label(str(name)): setting_value(value)
        for name, value in as_mapping(config.get("imported")).items()
    }


def _artifacts(step: LineageStep) -> list[tuple[str, Artifact]]:
    parts = PARTS | (DECODER_PARTS if step.version.root.kind == RootKind.DECODER else {})
    return [(parts[Role(role)], artifact) for role, artifact in step.artifacts.items()]


def _licensed(steps: Sequence[LineageStep]) -> list[Root | Hplm]:
    """Return the root and the model if one of them has a license."""
    hplm, root = steps[0].version.hplm, steps[-1].version.root
    if not (root.license or root.source_url or (hplm and hplm.license)):
        return []
    return [root, *([hplm] if hplm else [])]


def _leaks(version: Version) -> list[str]:
    if version.dataset is None or not version.dataset.leaks_allowed:
        return []
    worst = max(version.dataset.report.get("leaks", []), key=lambda leak: leak["share"], default=None)
    if worst is None:
        return []
    share = f"{worst['share']:.1%} of the rows of {worst['to']} are also in {worst['from']}"
    return [f"{share}: metrics are too optimistic."]
