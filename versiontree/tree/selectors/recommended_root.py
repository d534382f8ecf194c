"""The root and the parent recommended for an upload, and the fit of a tokenizer to the files of a check."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tenants.accounts.models import Tenant
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.formats.sampling import SampledFile
from tenants.datasets.models import CheckKind, Dataset, Split, UploadCheck
from tenants.datasets.selectors.uploads import dataset_of
from tenants.datasets.services.check_results import CheckResult
from versiontree.tree.models import Coverage, RootKind, Version
from versiontree.tree.models.version import VersionKind
from versiontree.tree.selectors.coverage import coverages_of
from versiontree.tree.selectors.versions import parents_ready_for, root_kind_of, version_visible_to
from versiontree.tree.tokenized_rows import TokenizerFit
from versiontree.tree.tokenizer_fit import files_fit, root_max_tokens


@dataclass(frozen=True, slots=True)
class RecommendedRoot:
    """The newest ready version of a root. ``why`` continues a sentence after the root's name and a comma."""

    version: Version
    why: str


def parent_and_dataset(tenant: Tenant, parent_id: int | None, dataset_id: int) -> tuple[Version, Dataset]:
    """What a new model is made from, by the ids. Without a parent's id: the recommended parent.

    Raises ``not_found``, and ``model_not_ready`` if no root is ready to be recommended.
    """
    parent = None if parent_id is None else version_visible_to(tenant, parent_id, param="parent")
    dataset = dataset_of(tenant, dataset_id)
    return parent or parent_recommended(tenant, dataset), dataset


def parent_recommended(tenant: Tenant, dataset: Dataset) -> Version:
    """The root or domain with the best coverage of a dataset, once all of them are measured. Before that, and
    for generative tasks: the recommended root. ``model_not_ready`` if no root is ready."""
    kind = root_kind_of(dataset.task)
    measured, waiting = coverages_of(tenant, dataset) if kind == RootKind.ENCODER else ([], [])
    known = [] if waiting else [one for one in measured if not one.error_message]
    if best := max(known, key=lambda one: one.rank, default=None):
        return best.version
    root = root_recommended(tenant, measured, kind=kind)
    if root is None:
        message = f"No root for {dataset.get_task_display().lower()} is ready to be the parent."
        raise HmiError(ErrorCode.MODEL_NOT_READY, message, param="parent")
    return root.version


def root_recommended(
    tenant: Tenant | None, measured: Iterable[Coverage] = (), *, kind: RootKind = RootKind.ENCODER
) -> RecommendedRoot | None:
    """The root of this kind with the best coverage of an upload, by its own tables or those of its domains.

    Without measurements: the root for the longest texts, the newest of those. None if no root is ready.
    """
    newest: dict[int, Version] = {}
    for version in parents_ready_for(tenant, root=kind).filter(kind=VersionKind.ROOT):
        newest.setdefault(version.root_id, version)
    if not newest:
        return None
    if len(newest) == 1:
        return RecommendedRoot(next(iter(newest.values())), "the only root that is ready")
    known = [one for one in measured if not one.error_message and one.version.root_id in newest]
    if best := max(known, key=lambda one: one.rank, default=None):
        return RecommendedRoot(newest[best.version.root_id], _best_coverage(best))
    longest = {key: _longest(version) for key, version in newest.items()}
    max_tokens = max(longest.values())
    first, *others = (version for key, version in newest.items() if longest[key] == max_tokens)
    reason = "the newest of those that read" if others else "the only one that reads"
    return RecommendedRoot(first, f"{reason} texts of {max_tokens:,} tokens")


def _best_coverage(best: Coverage) -> str:
    domain = best.version.domain
    owner = f"whose domain {domain.name} covers" if domain else "whose tables cover"
    return f"{owner} most of it ({best.rank[0]:.1%} of the fragments)"


def _longest(version: Version) -> int:
    try:
        return root_max_tokens(version)
    except HmiError:
        return 0


def checked_fit(check: UploadCheck, checked: CheckResult) -> dict[str, Any]:
    """``{"fit": ...}``: how the recommended root's tokenizer reads a sample of the files. Empty without one.

    Receiver of ``tenants.base.hooks.check_details``.
    """
    root = root_recommended(check.tenant, kind=root_kind_of(checked.report.get("task", "")))
    if root is None:
        return {}
    try:
        fit = files_fit(root.version, _parts(check, checked), task=check.options.get("task"))
    except HmiError:
        return {}
    return {"fit": {"root": root.version.root.name, "why": root.why, **_to_json(fit)}}


def _parts(check: UploadCheck, checked: CheckResult) -> list[SampledFile]:
    if check.kind == CheckKind.CORPUS:
        path, measured = checked.files["corpus"]
        return [SampledFile(path, checked.report["rows"], measured.size)]
    found = [(split, *checked.files[split]) for split in Split.values]
    return [
        SampledFile(path, checked.report["splits"][split]["rows"], measured.size, split)
        for split, path, measured in found
    ]


def _to_json(fit: TokenizerFit) -> dict[str, Any]:
    return {
        "rows": fit.total_rows,
        "rows_read": fit.rows,
        "tokens": fit.tokens,
        "tokens_per_word": fit.tokens_per_word,
        "byte_level": fit.byte_level,
        "unknown_share": fit.unknown_share,
        "max_tokens": fit.max_tokens,
        "longest": fit.longest,
        "long_share": fit.long_share,
        "too_long": fit.too_long.value,
        "warnings": fit.warnings,
    }
