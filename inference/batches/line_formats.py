"""How the lines of a batch are parsed, and how their results are formatted.

A batch has one of two formats: an input a line, or an OpenAI-style request a line. Requests are for one
endpoint, which parses their bodies.
"""

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Final, Protocol

import msgspec

from inference.api.errors import rendered
from inference.api.validation import invalid
from inference.batches.endpoints import Endpoint, parse_input
from inference.batches.inference_client import NUMBER_FORMAT, InputResult, line_error
from inference.batches.jsonl import ERRORS, MAX_LINE_BYTES, RESULTS, InputLine, ParsedLine
from inference.batches.tables import FAULT
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.strict_json import parse_json
from tenants.datasets.models import Task
from versiontree.tree.resolution import ResolvedModel

MAX_ID_LENGTH: Final = 200
MAX_ID_SHOWN: Final = 64


class LineFormat(Protocol):
    """A format of the lines of a batch."""

    def parse(self, line: InputLine) -> ParsedLine:
        """Parse a line. What is wrong with it is in ``error``."""
        ...

    def format_results(self, line: ParsedLine, results: Sequence[InputResult]) -> tuple[str, bytes]:
        """Return RESULTS or ERRORS, and the output line with the results of the line's inputs."""
        ...


class InputLineFormat:
    """An input of the model a line, a JSON string or object; an object may have an ``id`` beside its
    fields."""

    def __init__(self, model: ResolvedModel) -> None:
        self._model = model

    def parse(self, line: InputLine) -> ParsedLine:
        parsed = ParsedLine(line.number)
        try:
            value = parse_json_line(line)
            if isinstance(value, dict) and "id" in value:
                parsed = replace(parsed, custom_id=_check_id(value.pop("id"), "id"))
            return replace(parsed, inputs=self.inputs_of(value))
        except Exception as error:  # noqa: BLE001 - of this line alone
            own_id = parsed.custom_id or _sent_id(line, "id")
            return replace(parsed, custom_id=own_id, error=_without_index(line_error(error)))

    def format_results(self, line: ParsedLine, results: Sequence[InputResult]) -> tuple[str, bytes]:
        (result,) = [line.error] if line.error else results
        output: dict[str, Any] = {"line": line.number}
        if line.custom_id is not None:
            output["id"] = line.custom_id
        if isinstance(result, HmiError):
            return ERRORS, _json_line(output | result.to_json())
        return RESULTS, _json_line(output | {"result": result})

    def inputs_of(self, value: Any) -> tuple[Any, ...]:
        """The value of a line as the model's client takes it. Raises HmiError."""
        return parse_input(value, self._model)


class RowLineFormat(InputLineFormat):
    """The rows of a table, as `row_lines` writes them. A chat model gets the text of a user."""

    def inputs_of(self, value: Any) -> tuple[Any, ...]:
        if FAULT in value:
            raise HmiError(ErrorCode.MALFORMED_ROW, value[FAULT])
        if self._model.task == Task.CHAT:
            value = {"messages": [{"role": "user", "content": value["prompt"]}]}
        return super().inputs_of(value)


class RequestLineFormat:
    """An OpenAI-style request a line: ``custom_id``, ``method``, ``url``, ``body``.

    All requests of a batch have the same ``url``, which is that of ``endpoint``, and name the model in the
    same way, by ``reference``.
    """

    def __init__(self, model: ResolvedModel, *, endpoint: Endpoint, url: str, reference: str) -> None:
        self._model, self._endpoint, self._url, self._reference = model, endpoint, url, reference
        self._version = f"{model.full_name}:{model.version_number}"

    def parse(self, line: InputLine) -> ParsedLine:
        parsed = ParsedLine(line.number)
        try:
            request = _request_object(parse_json_line(line))
            parsed = replace(parsed, custom_id=_check_id(request.get("custom_id"), "custom_id"))
            for name, expected in (("method", "POST"), ("url", self._url)):
                if request.get(name) != expected:
                    raise invalid(name, f"Each request of this batch must be a POST to {self._url}.")
            body = _request_body(request)
            if body.get("model") != self._reference:
                raise invalid(
                    "model", f"All requests of a batch must use the same model, here {self._reference}."
                )
            inputs, options = self._endpoint.parse_body(body, self._model)
            return replace(parsed, inputs=inputs, options=options)
        except Exception as error:  # noqa: BLE001 - of this line alone
            own_id = parsed.custom_id or _sent_id(line, "custom_id")
            return replace(parsed, custom_id=own_id, error=line_error(error))

    def format_results(self, line: ParsedLine, results: Sequence[InputResult]) -> tuple[str, bytes]:
        error = line.error or next((one for one in results if isinstance(one, HmiError)), None)
        status, body, computed = 200, {}, {}
        if error is None:
            predictions = [one for one in results if isinstance(one, dict)]
            formats = {one[NUMBER_FORMAT] for one in predictions if NUMBER_FORMAT in one}
            computed = {NUMBER_FORMAT: ", ".join(sorted(formats))} if formats else {}
            try:
                body = self._endpoint.response_body(predictions, self._version, line.options)
            except Exception as failure:  # noqa: BLE001 - of this line alone
                error = line_error(failure)
        if error is not None:
            status, body = rendered(error, self._url)
        request_id = uuid.uuid4().hex
        output = {
            "id": f"batch_req_{request_id}",
            "line": line.number,
            "custom_id": line.custom_id,
            "response": {"status_code": status, "request_id": request_id, **computed, "body": body},
            "error": None,
        }
        return (ERRORS if error else RESULTS), _json_line(output)


def model_of_request(line: InputLine) -> str:
    """The model that a request line is for. Raises HmiError."""
    model = _request_body(_request_object(parse_json_line(line))).get("model")
    if not isinstance(model, str):
        message = 'The first request of the file has no "model" in its body.'
        raise HmiError(ErrorCode.MISSING_FIELD, message, param="model")
    return model[:256]


@contextmanager
def errors_at_line(line: InputLine) -> Iterator[None]:
    """Add the number of the line to the details of an error that its content raises."""
    try:
        yield
    except HmiError as error:
        error.details = {**(error.details or {}), "line": line.number}
        raise


class _SentIds(msgspec.Struct):
    """The ids that a line may have. Other fields are skipped without being built."""

    custom_id: str | None = None
    id: str | None = None


_decode_ids: Final = msgspec.json.Decoder(_SentIds).decode


class CustomIds:
    """The ids of the requests of a file, as hashes: a million of them take some 60 MB."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def check(self, line: InputLine) -> None:
        """Remember the id of a line. Raises ``invalid_field`` if an earlier line has it.

        Lines without a readable id are skipped. They get an error of their own later.
        """
        try:
            found = _decode_ids(line.content or b"").custom_id
        except (msgspec.DecodeError, UnicodeDecodeError):
            return
        if found is None:
            return
        key = hash(found)
        if key in self._seen:
            shown = found if len(found) <= MAX_ID_SHOWN else f"{found[:MAX_ID_SHOWN]}…"
            with errors_at_line(line):
                raise invalid("custom_id", f"Duplicate custom_id {shown!r}: an earlier line has it, too.")
        self._seen.add(key)


def parse_json_line(line: InputLine) -> Any:
    """The line's JSON value. Raises ``line_too_long``, and what `parse_json` raises, but ``invalid_json`` for
    what is not UTF-8: so are files of another kind."""
    if line.content is None:
        message = f"The line is longer than {MAX_LINE_BYTES:,} bytes."
        raise HmiError(ErrorCode.LINE_TOO_LONG, message)
    try:
        return parse_json(line.content)
    except HmiError as error:
        code = ErrorCode.INVALID_JSON if error.code is ErrorCode.INVALID_ENCODING else error.code
        message = error.message.replace("The body is not valid JSON", "The line is not JSON", 1)
        message = message.replace("The body", "The line", 1)
        raise HmiError(code, message, param=error.param, details=error.details) from error


def _request_object(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise invalid(None, "Each line is an object with custom_id, method, url and body.")


def _request_body(request: Mapping[str, Any]) -> dict[str, Any]:
    body = request.get("body")
    if isinstance(body, dict):
        return body
    raise invalid("body", "The body of a request is an object.")


def _sent_id(line: InputLine, name: str) -> str | None:
    """The id of a line that is wrong otherwise, if it has one."""
    with suppress(msgspec.DecodeError, UnicodeDecodeError, HmiError):
        return _check_id(getattr(_decode_ids(line.content or b""), name), name)
    return None


def _check_id(value: Any, param: str) -> str:
    if isinstance(value, str) and 0 < len(value) <= MAX_ID_LENGTH:
        return value
    raise invalid(param, f"{param} is a text of 1 to {MAX_ID_LENGTH} characters.")


def _json_line(value: dict[str, Any]) -> bytes:
    """ASCII JSON, since a text may hold half of a surrogate pair."""
    return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"


def _without_index(error: HmiError) -> HmiError:
    """The error of a line's only input, without the input's index."""
    param = (error.param or "").removeprefix("inputs[0]").removeprefix(".") or None
    return HmiError(error.code, error.message.replace("Input 0", "The input", 1), param=param)
