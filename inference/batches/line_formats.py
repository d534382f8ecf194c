"""How a line of a batch is read, and how its answer is written."""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from inference.api.errors import rendered
from inference.api.inputs import check_inputs, fit_inputs, invalid
from inference.batches.endpoints import Endpoint
from inference.batches.input_lines import LONGEST_LINE_BYTES, BatchInput, Line
from inference.batches.outputs import ERRORS, RESULTS
from inference.queueing.messages import InferInput
from tenants.base.errors import ErrorCode, HmiError

LONGEST_NAME: Final = 200
FIRST: Final = "inputs[0]"
Answer = dict[str, Any] | HmiError


@dataclass(frozen=True, slots=True)
class Taking:
    """What the model takes: inputs of this task, of one text or two."""

    task: str
    pairs: bool

    def inputs(self, given: object) -> tuple[InferInput, ...]:
        """A list of inputs, once each is what the model takes. Raises HmiError."""
        return fit_inputs(check_inputs(given), task=self.task, pairs=self.pairs)


class Form(Protocol):
    """One way to write the lines of a batch and their answers."""

    def read(self, line: Line) -> BatchInput:
        """What the line asks."""
        ...

    def written(self, asked: BatchInput, answers: Sequence[Answer]) -> tuple[str, bytes]:
        """The line's answer as a line, and which file it goes to."""
        ...


class Inputs:
    """An input a line, a JSON string or object; an object may have an ``id`` beside its texts."""

    def __init__(self, taking: Taking) -> None:
        self._taking = taking

    def read(self, line: Line) -> BatchInput:
        asked = BatchInput(line.number)
        try:
            value = parsed(line)
            if isinstance(value, dict) and "id" in value:
                asked = replace(asked, name=checked_name(value.pop("id"), "id"))
            return replace(asked, inputs=self._taking.inputs([value]))
        except HmiError as error:
            return replace(asked, refusal=_of_one(error))

    def written(self, asked: BatchInput, answers: Sequence[Answer]) -> tuple[str, bytes]:
        (answer,) = [asked.refusal] if asked.refusal else answers
        told: dict[str, Any] = {"line": asked.number}
        if asked.name is not None:
            told["id"] = asked.name
        if isinstance(answer, HmiError):
            return ERRORS, as_line(told | answer.to_json())
        return RESULTS, as_line(told | {"result": answer})


class Requests:
    """A request a line, as the OpenAI conventions have it: ``custom_id``, ``method``, ``url``, ``body``. All
    of a batch are for one address and one model."""

    def __init__(self, taking: Taking, *, endpoint: Endpoint, url: str, model: str, answered_by: str) -> None:
        self._taking, self._endpoint, self._url = taking, endpoint, url
        self._model, self._answered_by = model, answered_by

    def read(self, line: Line) -> BatchInput:
        asked = BatchInput(line.number)
        try:
            request = request_in(parsed(line))
            asked = replace(asked, name=checked_name(request.get("custom_id"), "custom_id"))
            if request.get("method") != "POST" or request.get("url") != self._url:
                raise invalid("url", f"Each request of this batch is a POST to {self._url}.")
            body = body_in(request)
            if body.get("model") != self._model:
                raise invalid("model", f"All requests of a batch are for one model, here {self._model}.")
            inputs, how = self._endpoint.read(body)
            return replace(asked, inputs=self._taking.inputs(inputs), how=how)
        except HmiError as error:
            return replace(asked, refusal=error)

    def written(self, asked: BatchInput, answers: Sequence[Answer]) -> tuple[str, bytes]:
        failure = asked.refusal or next((one for one in answers if isinstance(one, HmiError)), None)
        status, body = 200, {}
        if failure is None:
            good = [one for one in answers if isinstance(one, dict)]
            try:
                body = self._endpoint.body(good, self._answered_by, asked.how)
            except HmiError as error:
                failure = error
        if failure is not None:
            status, body = rendered(failure, self._url)
        name = uuid.uuid4().hex
        told = {
            "id": f"batch_req_{name}",
            "custom_id": asked.name,
            "response": {"status_code": status, "request_id": name, "body": body},
            "error": None,
        }
        return (ERRORS if failure else RESULTS), as_line(told)


def parsed(line: Line) -> Any:
    """The line's JSON value. Raises ``line_too_long``, ``invalid_json``."""
    if line.content is None:
        message = f"The line is longer than {LONGEST_LINE_BYTES:,} bytes."
        raise HmiError(ErrorCode.LINE_TOO_LONG, message)
    try:
        return json.loads(line.content)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise HmiError(ErrorCode.INVALID_JSON, f"The line is not JSON: {str(error)[:200]}.") from error
    except (ValueError, RecursionError) as error:
        message = "The line is not JSON: it is nested too deeply, or a number in it has thousands of digits."
        raise HmiError(ErrorCode.INVALID_JSON, message) from error


def request_in(value: Any) -> dict[str, Any]:
    """A line's value, which must be an object."""
    if isinstance(value, dict):
        return value
    raise invalid(None, "Each line is an object with custom_id, method, url and body.")


def body_in(request: Mapping[str, Any]) -> dict[str, Any]:
    """A request's body, which must be an object."""
    body = request.get("body")
    if isinstance(body, dict):
        return body
    raise invalid("body", "The body of a request is an object.")


def checked_name(name: Any, param: str) -> str:
    """What a line is called by its sender."""
    if isinstance(name, str) and 0 < len(name) <= LONGEST_NAME:
        return name
    raise invalid(param, f"{param} is a text of 1 to {LONGEST_NAME} characters.")


def as_line(value: dict[str, Any]) -> bytes:
    """ASCII JSON, so that half a surrogate pair in what was sent harms nothing."""
    return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"


def _of_one(error: HmiError) -> HmiError:
    """The same of a line's only input: its number says nothing."""
    param = (error.param or "").removeprefix(FIRST).removeprefix(".") or None
    return HmiError(error.code, error.message.replace("Input 0", "The input", 1), param=param)
