"""What answers a batch: the version, the format of the lines, and the endpoint that computes them."""

from dataclasses import dataclass
from typing import IO, Final

from inference.batches.endpoints import Endpoint, endpoint_of
from inference.batches.jsonl import read_lines
from inference.batches.line_formats import (
    InputLineFormat,
    LineFormat,
    RequestLineFormat,
    RowLineFormat,
    model_of_request,
)
from inference.batches.models import COMPLETIONS, INFER, BatchFormat
from tenants.accounts.models import Tenant
from tenants.base.errors import ErrorCode, HmiError
from versiontree.tree.resolution import ResolvedModel, resolve_model

FAULTS_OF_ONE_TEXT: Final = frozenset(
    {ErrorCode.EMPTY_TEXT, ErrorCode.INVALID_ENCODING, ErrorCode.BODY_TOO_LARGE}
)
"""Of a line that has the form of its batch: they say nothing about the other lines."""


@dataclass(frozen=True, slots=True)
class BatchModel:
    """The version that answers a batch, the format of the batch's lines, and the endpoint that computes
    them. reference: how the model is named, by the batch or in its requests."""

    reference: str
    resolved: ResolvedModel
    format: LineFormat
    endpoint: Endpoint

    @classmethod
    def of(
        cls,
        reference: str,
        resolved: ResolvedModel,
        *,
        line_format: str,
        endpoint: str,
        is_table: bool = False,
    ) -> "BatchModel":
        """Of a batch with lines of this format; ``endpoint``: of a batch of requests; ``is_table``: the lines
        are rows. Raises ``invalid_field`` if the version does not answer such requests."""
        if line_format == BatchFormat.INPUTS:
            url = COMPLETIONS if resolved.is_generative else INFER
            lines = RowLineFormat(resolved) if is_table else InputLineFormat(resolved)
            return cls(reference, resolved, lines, endpoint_of(url))
        answers = endpoint_of(endpoint)
        answers.check_model(resolved)
        requests = RequestLineFormat(resolved, endpoint=answers, url=endpoint, reference=reference)
        return cls(reference, resolved, requests, answers)

    @property
    def version_reference(self) -> str:
        """``name:version``, which does not depend on aliases."""
        return f"{self.resolved.model_name}:{self.resolved.version_number}"


def check_first_line(
    lines: IO[bytes], *, tenant: Tenant, line_format: str, endpoint: str = "", model: str = ""
) -> BatchModel:
    """What answers the lines of a file. ``model``: of inputs; ``endpoint``: of requests, which name their
    model themselves.

    Raises HmiError for what is wrong with the first line, since a file of another kind has more such lines.
    Its message and its details name the ``line``. Raises ``empty_file`` if there is none.
    """
    first = next(read_lines(lines), None)
    if first is None:
        raise HmiError(ErrorCode.EMPTY_FILE, "The file has only empty lines.", param="file")
    is_named = line_format == BatchFormat.INPUTS
    resolved = resolve_model(tenant, model) if is_named else None
    try:
        if resolved is None:
            model = model_of_request(first)
            resolved = resolve_model(tenant, model)
        answering = BatchModel.of(model, resolved, line_format=line_format, endpoint=endpoint)
        error = answering.format.parse(first).error
        if error is not None and error.code not in FAULTS_OF_ONE_TEXT:
            raise error
    except HmiError as error:
        if error.status >= 500:  # the server's fault, not the line's
            raise
        message = f"Line {first.number}: {error.message}"
        param = "file" if is_named else error.param or "input_file_id"
        details = {**(error.details or {}), "line": first.number}
        raise HmiError(error.code, message, param=param, details=details) from error
    return answering
