"""The validation report of a dataset: counts, and what its owner should know."""

from typing import Any

from tenants.datasets.formats.census import Named
from tenants.datasets.formats.dataset import SPLITS, DatasetDraft
from tenants.datasets.formats.examples import AnswerExample, Example, LabelsExample, TagExample, ValueExample
from tenants.datasets.formats.splits import LEAK_LIMIT, unseen_labels

FEW_ROWS_OF_A_LABEL = 5
MUCH_IMBALANCE = 20
LONGEST_SHOWN = 300
MOST_TOKENS_SHOWN = 60


def dataset_report(draft: DatasetDraft) -> dict[str, Any]:
    """The report as JSON values: ``rows``, ``words``, per split counts, leaks, unseen labels, warnings."""
    censuses = {split: draft.censuses[split] for split in SPLITS}
    return {
        "task": draft.task,
        "pairs": draft.pairs,
        "formats": draft.formats,
        "rows": draft.rows,
        "words": sum(census.words.total for census in censuses.values()),
        "labels": draft.labels,
        "splits": {split: census.to_json() for split, census in censuses.items()},
        "automatic_splits": draft.automatic,
        "leaks": draft.leaks,
        "leaks_allowed": draft.leaks_allowed,
        "unseen_labels": unseen_labels(censuses),
        "warnings": dataset_warnings(draft),
    }


def dataset_warnings(draft: DatasetDraft) -> list[str]:
    """What is not wrong enough to refuse, in sentences."""
    warnings = [_leak(leak) for leak in draft.leaks]
    if draft.leaks_allowed:
        warnings.append(f"Leaks above {LEAK_LIMIT:.0%} were allowed: measures on these splits flatter.")
    if draft.automatic:
        warnings.append(f"No {' and no '.join(draft.automatic)} was given: taken from train, a tenth each.")
    for split in SPLITS:
        census = draft.censuses[split]
        if census.duplicates.rows:
            share = census.duplicates.rows / census.rows
            warnings.append(
                f"{_counted(census.duplicates.rows)} of {split} ({share:.1%})"
                f" {_verb(census.duplicates.rows, 'repeat')} the text of an earlier row"
                f"{_rows(census.duplicates)}."
            )
        if census.conflicting.rows:
            warnings.append(
                f"{_counted(census.conflicting.rows)} of {split}"
                f" {_verb(census.conflicting.rows, 'answer')} a text otherwise than an earlier row"
                f"{_rows(census.conflicting)}."
            )
    return warnings + _label_warnings(draft)


def dataset_preview_rows(draft: DatasetDraft) -> dict[str, list[dict[str, Any]]]:
    """The first rows of each file that was given; long texts are cut."""
    return {split: [_shown(example) for example in examples] for split, examples in draft.preview.items()}


def _label_warnings(draft: DatasetDraft) -> list[str]:
    train = draft.censuses["train"]
    warnings = [
        f"{unseen['split']} has the label {unseen['label']!r}, which train lacks, in"
        f" {_counted(unseen['rows'])}{_rows(Named(unseen['rows'], unseen['first_rows']))}: what is answered"
        " there is wrong."
        for unseen in unseen_labels(draft.censuses)[:10]
    ]
    rare = sorted(label for label, rows in train.labels.items() if rows < FEW_ROWS_OF_A_LABEL)
    if rare:
        warnings.append(f"Labels with fewer than {FEW_ROWS_OF_A_LABEL} examples in train: {_listed(rare)}.")
    if train.imbalance is not None and train.imbalance > MUCH_IMBALANCE:
        warnings.append(
            f"The most frequent label of train stands {train.imbalance:,.0f} times as often as the rarest:"
            " look at macro-F1 and the figures per label, not at accuracy alone."
        )
    return warnings


def _leak(leak: dict[str, Any]) -> str:
    named = _rows(Named(leak["rows"], leak["first_rows"]))
    stand = f"{_counted(leak['rows'])} of {leak['to']} {_verb(leak['rows'], 'stand')} in {leak['from']}, too"
    return f"{stand} ({leak['share']:.2%}){named}."


def _counted(rows: int) -> str:
    return f"{rows:,} row{'' if rows == 1 else 's'}"


def _verb(rows: int, verb: str) -> str:
    return f"{verb}s" if rows == 1 else verb


def _rows(named: Named) -> str:
    """The numbers of the rows in brackets."""
    more = ", …" if named.rows > len(named.first) else ""
    return f" (row{'s' if named.rows > 1 else ''} {', '.join(map(str, named.first))}{more})"


def _shown(example: Example) -> dict[str, Any]:
    if isinstance(example, TagExample):
        tokens, tags = example.tokens[:MOST_TOKENS_SHOWN], example.tags[:MOST_TOKENS_SHOWN]
        cut = len(example.tokens) > MOST_TOKENS_SHOWN
        return {"tokens": list(tokens), "tags": list(tags), "cut": cut}
    cut = any(len(text) > LONGEST_SHOWN for text in example.texts)
    shown = [text[:LONGEST_SHOWN] for text in example.texts]
    if isinstance(example, AnswerExample):
        answers = [{"text": answer.text, "start": answer.start} for answer in example.answers]
        return {"question": shown[0], "context": shown[1], "answers": answers, "cut": cut}
    texts = dict(zip(("text", "text_pair"), shown, strict=False))
    if isinstance(example, LabelsExample):
        return {**texts, "labels": list(example.labels), "cut": cut}
    if isinstance(example, ValueExample):
        return {**texts, "value": example.value, "cut": cut}
    return {**texts, "label": example.label, "cut": cut}


def _listed(labels: list[str]) -> str:
    return ", ".join(labels[:10]) + (f" and {len(labels) - 10} more" if len(labels) > 10 else "")
