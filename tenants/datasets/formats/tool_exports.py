"""Maps the JSON of annotation tools and libraries to flat records, one for each example (docs/formats.md)."""

from collections.abc import Iterator
from typing import Any, Final

Record = dict[str, Any]

TOOL_COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "text": ("data",),
    "label": ("choices", "accept", "cats"),
    "labels": ("label", "choices", "accept", "cats"),
    "tokens": ("text", "data"),
    "tags": ("ner_tags", "spans", "entities", "labels", "label"),
    "prompt": ("instruction",),
    "completion": ("output", "response"),
    "messages": ("conversations",),
}
"""Canonical column -> what tools call it, in order. Read if the column is missing and was not mapped."""

INSTRUCTION_INPUTS: Final = ("input", "context")
"""Columns beside an ``instruction`` whose text goes on with the prompt (Alpaca, Dolly)."""
SYSTEM, HISTORY, TOOLS = "system", "history", "tools"
COLUMNS_BESIDE: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("prompt", "instruction"): (*INSTRUCTION_INPUTS, SYSTEM, HISTORY),
    ("messages", "conversations"): (SYSTEM, TOOLS),
}
"""Canonical column and its name in a tool's file -> columns that are read with it, if they are there."""

LABEL_STUDIO_VALUES: Final = {
    "choices": "choices",
    "textarea": "text",
    "rating": "rating",
    "number": "number",
}
"""Type of a Label Studio result -> the field that has its value."""

PRODIGY_ANSWERS: Final = {"accept": True, "reject": False, "ignore": False}


def records_of(value: Any) -> Iterator[Record]:
    """The records of a JSON value: itself, or those of a tool's export, which may be several or none.

    Raises ``ValueError`` that says what the value is and what to do.
    """
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and type(value[1]) is dict:
        yield {"text": value[0], **value[1]}  # spaCy: [text, annotations]
    elif not isinstance(value, dict):
        raise ValueError(f"each line must be a JSON object; this is {_kind(value)}.")
    elif value.keys() <= {"data", "version"} and isinstance(value.get("data"), list):
        for part in value["data"]:
            yield from _squad_questions(part) if _is_squad_article(part) else _record(part)
    elif _is_squad_article(value):
        yield from _squad_questions(value)
    elif isinstance(value.get("data"), dict) and isinstance(value.get("annotations"), list):
        yield from _label_studio_task(value)
    else:
        yield from _record(value)


def is_accepted(record: Record) -> bool:
    """False for an example that a Prodigy annotator rejected or skipped."""
    answer = record.get("answer")
    return not isinstance(answer, str) or "text" not in record or PRODIGY_ANSWERS.get(answer, True)


def _record(value: Any) -> Iterator[Record]:
    if type(value) is not dict:
        raise ValueError(f"each example must be a JSON object; this is {_kind(value)}.")
    if "paragraphs" in value and "text" not in value:
        raise ValueError(
            "this is spaCy's JSON of version 2, or another nested format; write JSON lines of"
            " [text, annotations]."
        )
    if value and all(isinstance(cells, dict) and "0" in cells for cells in value.values()):
        raise ValueError(
            "this is a table by columns, as pandas writes it; use to_json(orient='records', lines=True)."
        )
    yield {"spans": [], **value} if _lacks_spans(value) else value


def _lacks_spans(record: Record) -> bool:
    """Whether the text has no spans, since Prodigy and Label Studio's JSON-MIN leave out an empty list."""
    if "annotator" in record:
        return record.keys().isdisjoint(TOOL_COLUMNS["tags"])
    return "_task_hash" in record or _are_offsets(record.get("tokens"))


def _are_offsets(tokens: Any) -> bool:
    """Whether these are tokens with their offsets in a text."""
    return isinstance(tokens, list) and bool(tokens) and isinstance(tokens[0], dict)


def _is_squad_article(value: Any) -> bool:
    paragraphs = value.get("paragraphs") if isinstance(value, dict) else None
    return isinstance(paragraphs, list) and all(
        isinstance(one, dict) and isinstance(one.get("qas"), list) for one in paragraphs
    )


def _squad_questions(article: Record) -> Iterator[Record]:
    for paragraph in article["paragraphs"]:
        for question in paragraph["qas"]:
            for record in _record(question):
                found = {"context": paragraph.get("context"), **record}
                yield found | {"answers": []} if record.get("is_impossible") is True else found


def _label_studio_task(task: Record) -> Iterator[Record]:
    """The data of a task and its results by name, or nothing if nobody has annotated it."""
    values = [
        _results(one.get("result"))
        for one in task["annotations"]
        if isinstance(one, dict) and one.get("was_cancelled") is not True
    ]
    if any(other != values[0] for other in values[1:]):
        raise ValueError(f"the task has {len(values)} annotations that differ; keep one.")
    if values:
        yield {**task["data"], **values[0]}


def _results(result: Any) -> Record:
    """The values of an annotation by the names of their controls, and by kind if it has one control."""
    spans: Record = {}
    others: Record = {}
    choices: set[str] = set()
    for one in result if isinstance(result, list) else []:
        value = one.get("value") if isinstance(one, dict) else None
        if not isinstance(value, dict):
            continue
        name, kind = str(one.get("from_name")), str(one.get("type"))
        if kind == "labels":
            spans.setdefault(name, []).append(value)
        elif kind in LABEL_STUDIO_VALUES:
            others[name] = value.get(LABEL_STUDIO_VALUES[kind])
            choices.update({name} if kind == "choices" else ())
    found: Record = {"choices": [], "spans": [], **others, **spans}
    if len(choices) == 1:
        found["choices"] = others[next(iter(choices))]
    if len(spans) == 1:
        found["spans"] = next(iter(spans.values()))
    return found


def _kind(found: object) -> str:
    return {list: "an array", str: "a string", type(None): "null"}.get(type(found), "a number or boolean")
