"""`hmi infer`: run a model on texts from arguments, a file or stdin."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from hmi_client.cli.output import AsJson, print_json, print_table, shortened
from hmi_client.cli.profiles import client_of
from hmi_client.cli.text_input import STDIN, empty_input, read_lines
from hmi_client.errors import HmiError
from hmi_client.operations.infer import Quality
from hmi_client.responses import Answer, Json

Input = str | dict[str, str]


def infer(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="model or tenant/model, optionally with @alias or :version.")],
    texts: Annotated[
        list[str] | None, typer.Argument(help="Input texts. Default: the lines of stdin.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="Read inputs from the lines of this file; - is stdin.")
    ] = None,
    jsonl: Annotated[
        bool,
        typer.Option("--jsonl", help="Each line is JSON: a string, or an object such as {text, text_pair}."),
    ] = False,
    batch_size: Annotated[int, typer.Option(min=1, max=256, help="Inputs per request.")] = 32,
    timeout: Annotated[
        float | None, typer.Option(min=0.001, help="Deadline of each request in seconds.")
    ] = None,
    quality: Annotated[
        Quality | None,
        typer.Option(
            help="fast: use precomputed results; exact: run the full model on every text; balanced: "
            "recompute only uncertain texts. Default: the model's."
        ),
    ] = None,
    target: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="With balanced: the metric on dev to reach at the least cost."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a model on texts. With --json, prints one line per input: {"input", "result", "model"}."""
    if texts and file:
        raise typer.BadParameter("Give texts or --file, not both.")
    with client_of(context) as client:
        for inputs in _batched(_inputs(texts, file, jsonl), batch_size):
            answer = client.infer(model, inputs, timeout_s=timeout, quality=quality, target=target)
            _print_answer(inputs, answer, as_json)


def _inputs(texts: list[str] | None, file: Path | None, jsonl: bool) -> Iterator[Input]:
    """The texts, or the lines of a file that are not blank. HmiError if it has none."""
    lines, blank = iter(texts) if texts else read_lines(file or STDIN), True
    for number, line in enumerate(lines, 1):
        if texts or line.strip():
            blank = False
            yield _parse_json(line, number) if jsonl else line.removesuffix("\n")
    if blank:
        raise empty_input(file or STDIN)


def _parse_json(line: str, number: int) -> Input:
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise HmiError(f"Line {number} is not JSON: {error}.") from error
    if not isinstance(value, str | dict):
        raise HmiError(f"Line {number} is neither a string nor an object.")
    return value


def _batched(inputs: Iterable[Input], size: int) -> Iterator[list[Input]]:
    remaining = iter(inputs)
    while batch := list(islice(remaining, size)):
        yield batch


def _print_answer(inputs: list[Input], answer: Answer, as_json: bool) -> None:
    if as_json:
        for text, result in zip(inputs, answer.results, strict=True):
            print_json({"input": text, "result": result, "model": asdict(answer.model)})
        return
    rows = [(_input_text(text), *_cells(result)) for text, result in zip(inputs, answer.results, strict=True)]
    print_table(("input", f"{answer.model.name}:{answer.model.version}", "score"), rows)


def _cells(result: Json) -> tuple[str, float | None]:
    """The prediction as text, and its score if there is a single one."""
    if "spans" in result:
        return ", ".join(f"{span['text']} ({span['label']})" for span in result["spans"]), None
    if "labels" in result:
        return ", ".join(result["labels"]), None
    if "value" in result:
        return f"{result['value']:.6g}", None
    if "answer" in result:
        return str(result["answer"]), result.get("score")
    return str(result.get("label", "")), result.get("scores", {}).get(result.get("label"))


def _input_text(value: Input) -> str:
    return shortened(value if isinstance(value, str) else " | ".join(map(str, value.values())))
