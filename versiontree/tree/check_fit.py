"""What the version tree tells of files as soon as they are checked, before anything is stored."""

from typing import Any

from tenants.base.errors import HmiError
from tenants.datasets.formats.fit import TokenizerFit
from tenants.datasets.formats.sampling import SampledPart
from tenants.datasets.models import CheckKind, Split, UploadCheck
from tenants.datasets.services.check_results import Checked
from versiontree.tree.selectors.recommended_root import root_recommended
from versiontree.tree.tokenizer_fit import files_fit


def checked_fit(check: UploadCheck, checked: Checked) -> dict[str, Any]:
    """Under ``fit``: how the recommended root reads rows of the files, so many and no more, drawn evenly
    (``tenants.base.hooks.check_details``). Nothing where no root can be asked."""
    root = root_recommended(check.tenant)
    if root is None:
        return {}
    try:
        fit = files_fit(root.version, _parts(check, checked), task=check.options.get("task"))
    except HmiError:
        return {}
    return {"fit": {"root": root.version.root.name, "why": root.why, **_to_json(fit)}}


def _parts(check: UploadCheck, checked: Checked) -> list[SampledPart]:
    if check.kind == CheckKind.CORPUS:
        path, measured = checked.files["corpus"]
        return [SampledPart(path, checked.report["rows"], measured.size)]
    found = [(split, *checked.files[split]) for split in Split.values]
    return [
        SampledPart(path, checked.report["splits"][split]["rows"], measured.size, split)
        for split, path, measured in found
    ]


def _to_json(fit: TokenizerFit) -> dict[str, Any]:
    return {
        "rows": fit.of_rows,
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
