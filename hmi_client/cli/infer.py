"""`hmi infer`: texts from arguments, a file or stdin, each with its answer."""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from hmi_client.cli.output import AsJson, show_json, show_table
from hmi_client.cli.session import client_of
from hmi_client.errors import HmiError
from hmi_client.responses import Answer, Json

Input = str | dict[str, str]
STDIN = Path("-")
MAX_SHOWN_LENGTH = 60


def infer(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="model, tenant/model, with @alias or :version.")],
    texts: Annotated[list[str] | None, typer.Argument(help="Texts; without any, lines of stdin.")] = None,
    file: Annotated[Path | None, typer.Option(help="Read lines of this file instead; - is stdin.")] = None,
    jsonl: Annotated[
        bool,
        typer.Option("--jsonl", help="Each line is JSON: a text, or an object such as {text, text_pair}."),
    ] = False,
    at_once: Annotated[int, typer.Option(min=1, max=256, help="How many inputs a request has.")] = 32,
    timeout_s: Annotated[float | None, typer.Option(min=0.001, help="Seconds to wait at most.")] = None,
    as_json: AsJson = False,
) -> None:
    """Ask a model. With --json, each input has one line: {"input", "result", "model"}."""
    if texts and file:
        raise typer.BadParameter("Give texts, or a file, not both.")
    with client_of(context) as client:
        for inputs in _parts(_inputs(texts, file, jsonl), at_once):
            _show(inputs, client.infer(model, inputs, timeout_s=timeout_s), as_json)


def _inputs(texts: list[str] | None, file: Path | None, jsonl: bool) -> Iterator[Input]:
    lines = iter(texts) if texts else _lines(file or STDIN)
    for number, line in enumerate(lines, 1):
        yield _parsed(line, number) if jsonl else line


def _lines(file: Path) -> Iterator[str]:
    """Lines that say something."""
    try:
        with nullcontext(sys.stdin) if file == STDIN else file.open(encoding="utf-8") as source:
            yield from (line.rstrip("\r\n") for line in source if line.strip())
    except OSError as error:
        raise HmiError(f"{file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise HmiError(f"{file} is not UTF-8 text.") from error


def _parsed(line: str, number: int) -> Input:
    try:
        found: Any = json.loads(line)
    except ValueError as error:
        raise HmiError(f"Line {number} is not JSON: {error}.") from error
    if not isinstance(found, str | dict):
        raise HmiError(f"Line {number} is neither a text nor an object.")
    return found


def _parts(inputs: Iterable[Input], size: int) -> Iterator[list[Input]]:
    left = iter(inputs)
    while part := list(islice(left, size)):
        yield part


def _show(inputs: list[Input], answer: Answer, as_json: bool) -> None:
    if as_json:
        for asked, result in zip(inputs, answer.results, strict=True):
            show_json({"input": asked, "result": result, "model": asdict(answer.model)})
        return
    rows = [(_short(asked), *_in_words(result)) for asked, result in zip(inputs, answer.results, strict=True)]
    show_table(("input", f"{answer.model.name}:{answer.model.version}", "score"), rows)


def _in_words(result: Json) -> tuple[str, float | None]:
    """What was found, and how sure the model is of it, where that is one number."""
    if "spans" in result:
        return ", ".join(f"{span['text']} ({span['label']})" for span in result["spans"]), None
    if "labels" in result:
        return ", ".join(result["labels"]), None
    if "value" in result:
        return f"{result['value']:.6g}", None
    if "answer" in result:
        return str(result["answer"]), result.get("score")
    return str(result.get("label", "")), result.get("scores", {}).get(result.get("label"))


def _short(asked: Input) -> str:
    text = asked if isinstance(asked, str) else " | ".join(map(str, asked.values()))
    return text if len(text) <= MAX_SHOWN_LENGTH else f"{text[: MAX_SHOWN_LENGTH - 1]}…"
