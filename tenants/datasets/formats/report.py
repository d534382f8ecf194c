"""The validation report of a dataset: statistics, leaks, warnings, notes, preview."""

from typing import Any

from tenants.base.plurals import counted
from tenants.datasets.formats.dataset import SPLITS, DatasetDraft
from tenants.datasets.formats.examples import (
    ChatExample,
    Example,
    GenerationExample,
    MultilabelExample,
    QuestionAnsweringExample,
    RegressionExample,
    TaggingExample,
)
from tenants.datasets.formats.normalization import label_likeness
from tenants.datasets.formats.splits import LEAK_LIMIT, unseen_labels
from tenants.datasets.formats.statistics import FlaggedRows

MIN_ROWS_PER_LABEL = 5
MIN_TEST_ROWS = 100
"""A test split with fewer rows measures too roughly to compare versions by it."""
PURPOSES = {"dev": "validation", "test": "testing"}
MAX_IMBALANCE = 20
MAX_PREVIEW_LENGTH = 300
MAX_PREVIEW_TOKENS = 60
MAX_PREVIEW_MESSAGES = 6


def dataset_report(draft: DatasetDraft) -> dict[str, Any]:
    """The report as JSON: ``rows``, ``words``, statistics of each split, leaks, unseen labels, warnings,
    notes."""
    statistics = {split: draft.statistics[split] for split in SPLITS}
    return {
        "task": draft.task,
        "pairs": draft.pairs,
        "formats": draft.formats,
        "rows": draft.rows,
        "words": sum(stats.words.total for stats in statistics.values()),
        "labels": draft.labels,
        "splits": {split: stats.to_json() for split, stats in statistics.items()},
        "automatic_splits": draft.automatic,
        "leaks": draft.leaks,
        "leaks_allowed": draft.leaks_allowed,
        "skipped_rows": draft.skipped,
        "unseen_labels": unseen_labels(statistics),
        "warnings": dataset_warnings(draft),
        "notes": dataset_notes(draft),
    }


def dataset_warnings(draft: DatasetDraft) -> list[str]:
    """Problems that are not errors, as sentences."""
    warnings = [_leak(leak) for leak in draft.leaks]
    if draft.leaks_allowed:
        warnings.append(
            f"Leaks above {LEAK_LIMIT:.0%} were allowed: metrics on these splits are too optimistic."
        )
    for split, rows in draft.skipped.items():
        were = "was" if rows == 1 else "were"
        warnings.append(f"{counted(rows, 'row')} of {split} {were} invalid and left out.")
    if (rows := draft.statistics["test"].rows) < MIN_TEST_ROWS:
        warnings.append(
            f"The test split has only {counted(rows, 'row')}. Each counts for {1 / rows:.0%} of the measured"
            f" quality, so small differences mean nothing. Give at least {MIN_TEST_ROWS} rows."
        )
    for split in SPLITS:
        stats = draft.statistics[split]
        if stats.duplicates.rows:
            share = stats.duplicates.rows / stats.rows
            warnings.append(
                f"{counted(stats.duplicates.rows, 'row')} of {split} ({share:.1%})"
                f" {_verb(stats.duplicates.rows, 'repeat')} the text of an earlier row"
                f"{_rows(stats.duplicates)}."
            )
        if stats.conflicting.rows:
            warnings.append(
                f"{counted(stats.conflicting.rows, 'row')} of {split}"
                f" {_verb(stats.conflicting.rows, 'contradict')} an earlier row with the same text"
                f"{_rows(stats.conflicting)}."
            )
    return warnings + _label_warnings(draft)


def dataset_notes(draft: DatasetDraft) -> list[str]:
    """What was done for the user, as sentences."""
    if not draft.automatic:
        return []
    held_out = " and ".join(f"10% for {PURPOSES[split]}" for split in draft.automatic)
    return [f"We hold out {held_out.replace('10%', '10% of the rows', 1)}."]


def dataset_preview_rows(draft: DatasetDraft) -> dict[str, list[dict[str, Any]]]:
    """The first rows of each uploaded file. Long texts are truncated."""
    return {split: [_preview(example) for example in examples] for split, examples in draft.preview.items()}


def _label_warnings(draft: DatasetDraft) -> list[str]:
    train = draft.statistics["train"]
    warnings = [
        f"{unseen['split']} has the label {unseen['label']!r}, which train lacks, in"
        f" {counted(unseen['rows'], 'row')}{_rows(FlaggedRows(unseen['rows'], unseen['first_rows']))}:"
        " every prediction there is wrong."
        for unseen in unseen_labels(draft.statistics)[:10]
    ]
    rare = sorted(label for label, rows in train.labels.items() if rows < MIN_ROWS_PER_LABEL)
    if rare:
        warnings.append(f"Labels with fewer than {MIN_ROWS_PER_LABEL} examples in train: {_listed(rare)}.")
    warnings += [
        f"The labels {_listed(list(map(repr, alike)))} differ only in letter case, number format or emoji"
        " style."
        for alike in _labels_alike(draft.labels)
    ]
    if train.imbalance is not None and train.imbalance > MAX_IMBALANCE:
        warnings.append(
            f"The most frequent label of train is {train.imbalance:,.0f} times as frequent as the rarest:"
            " look at macro-F1 and the metrics of each label, not only at accuracy."
        )
    return warnings


def _labels_alike(labels: list[str]) -> list[list[str]]:
    """Groups of labels that may be meant as one."""
    by_likeness: dict[str, list[str]] = {}
    for label in labels:
        by_likeness.setdefault(label_likeness(label), []).append(label)
    return [alike for alike in by_likeness.values() if len(alike) > 1]


def _leak(leak: dict[str, Any]) -> str:
    rows = leak["rows"]
    overlap = f"{counted(rows, 'row')} of {leak['to']} {'is' if rows == 1 else 'are'} also in {leak['from']}"
    return f"{overlap} ({leak['share']:.2%}){_rows(FlaggedRows(rows, leak['first_rows']))}."


def _verb(rows: int, verb: str) -> str:
    return f"{verb}s" if rows == 1 else verb


def _rows(flagged: FlaggedRows) -> str:
    """The row numbers in brackets."""
    more = ", …" if flagged.rows > len(flagged.first) else ""
    return f" (row{'s' if flagged.rows > 1 else ''} {', '.join(map(str, flagged.first))}{more})"


def _preview(example: Example) -> dict[str, Any]:
    if isinstance(example, TaggingExample):
        tokens, tags = example.tokens[:MAX_PREVIEW_TOKENS], example.tags[:MAX_PREVIEW_TOKENS]
        cut = len(example.tokens) > MAX_PREVIEW_TOKENS
        return {"tokens": list(tokens), "tags": list(tags), "cut": cut}
    if isinstance(example, GenerationExample | ChatExample):
        return _generative_preview(example)
    cut = any(len(text) > MAX_PREVIEW_LENGTH for text in example.texts)
    shown = [text[:MAX_PREVIEW_LENGTH] for text in example.texts]
    if isinstance(example, QuestionAnsweringExample):
        answers = [{"text": answer.text, "start": answer.start} for answer in example.answers]
        return {"question": shown[0], "context": shown[1], "answers": answers, "cut": cut}
    texts = dict(zip(("text", "text_pair"), shown, strict=False))
    if isinstance(example, MultilabelExample):
        return {**texts, "labels": list(example.labels), "cut": cut}
    if isinstance(example, RegressionExample):
        return {**texts, "value": example.value, "cut": cut}
    return {**texts, "label": example.label, "cut": cut}


def _generative_preview(example: GenerationExample | ChatExample) -> dict[str, Any]:
    """The prompt and its completion, or the first messages and the last."""
    if isinstance(example, GenerationExample):
        texts = {"prompt": example.prompt, "completion": example.completion}
        cut = any(len(text) > MAX_PREVIEW_LENGTH for text in texts.values())
        return {**{name: text[:MAX_PREVIEW_LENGTH] for name, text in texts.items()}, "cut": cut}
    shown = example.messages
    if len(shown) > MAX_PREVIEW_MESSAGES:
        shown = (*shown[: MAX_PREVIEW_MESSAGES - 1], shown[-1])
    cut = len(shown) < len(example.messages) or any(len(one.content) > MAX_PREVIEW_LENGTH for one in shown)
    messages = [{"role": one.role, "content": one.content[:MAX_PREVIEW_LENGTH]} for one in shown]
    return {"messages": messages, "cut": cut}


def _listed(labels: list[str]) -> str:
    return ", ".join(labels[:10]) + (f" and {len(labels) - 10} more" if len(labels) > 10 else "")
