"""The validation report of a dataset: counts, and what its owner should know."""

from typing import Any

from tenants.formats.dataset import SPLITS, DatasetDraft
from tenants.formats.examples import Example, TextExample

FEW_ROWS_OF_A_LABEL = 5
LONGEST_SHOWN = 300
MOST_TOKENS_SHOWN = 60


def dataset_report(draft: DatasetDraft) -> dict[str, Any]:
    """The report as JSON values: ``rows``, ``words``, per split counts, leaks, warnings."""
    censuses = {split: draft.censuses[split] for split in SPLITS}
    return {
        "task": draft.task,
        "formats": draft.formats,
        "rows": draft.rows,
        "words": sum(census.words.total for census in censuses.values()),
        "labels": draft.labels,
        "splits": {split: census.to_json() for split, census in censuses.items()},
        "automatic_splits": draft.automatic,
        "leaks": draft.leaks,
        "warnings": dataset_warnings(draft),
    }


def dataset_warnings(draft: DatasetDraft) -> list[str]:
    """What is not wrong enough to refuse, in sentences."""
    warnings = [
        f"{leak['rows']} rows of {leak['to']} stand in {leak['from']}, too ({leak['share']:.2%})."
        for leak in draft.leaks
    ]
    if draft.automatic:
        warnings.append(f"No {' and no '.join(draft.automatic)} was given: taken from train, a tenth each.")
    train = draft.censuses["train"]
    for split in SPLITS:
        census = draft.censuses[split]
        if census.duplicates:
            warnings.append(f"{census.duplicates} rows of {split} repeat the text of an earlier row.")
        if census.conflicting:
            warnings.append(
                f"{census.conflicting} rows of {split} label a text otherwise than an earlier row."
            )
        unknown = sorted(set(census.labels) - set(train.labels))
        if unknown:
            warnings.append(f"{split} has labels that train lacks: {_listed(unknown)}.")
    rare = sorted(label for label, rows in train.labels.items() if rows < FEW_ROWS_OF_A_LABEL)
    if rare:
        warnings.append(f"Labels with fewer than {FEW_ROWS_OF_A_LABEL} examples in train: {_listed(rare)}.")
    return warnings


def dataset_preview_rows(draft: DatasetDraft) -> dict[str, list[dict[str, Any]]]:
    """The first rows of each file that was given; long texts are cut."""
    return {split: [_shown(example) for example in examples] for split, examples in draft.preview.items()}


def _shown(example: Example) -> dict[str, Any]:
    if isinstance(example, TextExample):
        cut = len(example.text) > LONGEST_SHOWN
        return {"text": example.text[:LONGEST_SHOWN], "label": example.label, "cut": cut}
    cut = len(example.tokens) > MOST_TOKENS_SHOWN
    tokens, tags = example.tokens[:MOST_TOKENS_SHOWN], example.tags[:MOST_TOKENS_SHOWN]
    return {"tokens": list(tokens), "tags": list(tags), "cut": cut}


def _listed(labels: list[str]) -> str:
    return ", ".join(labels[:10]) + (f" and {len(labels) - 10} more" if len(labels) > 10 else "")
