"""What schemathesis makes of the description of the API, sent to the real views; what it did is undone."""

import os
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import schemathesis
from django.db import transaction
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode, SerializationContext
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.transport.serialization import serialize_binary

EXAMPLES = 10 * int(os.environ.get("HMI_FUZZ_CASES", "1"))
BAD = 400
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
AnyCase = Case[Any]
Operation = APIOperation[Any, Any, Any, Any]
OF_NOTHING = {"cursor", "after", "If-Match"}
MOSTLY = st.sampled_from([True, True, True, False])
QUIET = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@schemathesis.serializer("application/offset+octet-stream")
def piece_of_a_file(_: SerializationContext, value: Any) -> bytes | None:
    """The bytes as they are."""
    return serialize_binary(value)


@dataclass(frozen=True)
class Caller:
    """Who asks, by the headers and cookies that say so."""

    headers: Mapping[str, str]
    cookies: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Known:
    """Values that name what is there: of parameters of a path; of fields of a body, parameters of a query and
    headers."""

    places: Mapping[str, object]
    fields: Mapping[str, object]


def operations(door: Any, wanted: Callable[[str], bool]) -> Iterator[Operation]:
    """Those at the addresses wanted, as the served description has them."""
    described = schemathesis.openapi.from_wsgi("/api/schema/?format=json", door)
    for result in described.get_all_operations():
        assert isinstance(result, Ok), result
        if wanted(result.ok().path):
            yield result.ok()


@dataclass
class Findings:
    """What was wrong with the first wrong answer of each operation; and the operations that answered nobody
    well."""

    faults: list[str] = field(default_factory=list)
    closed: set[str] = field(default_factory=set)


def probe(operation: Operation, caller: Caller, known: Known, findings: Findings) -> None:
    """Send cases of all kinds."""
    statuses: set[int] = set()

    @QUIET
    @given(case=_cases(operation), places=MOSTLY, fields=MOSTLY)
    def send(case: AnyCase, places: bool, fields: bool) -> None:
        if places:
            _name_places(case, known)
        if fields:
            _name_fields(case, known)
        with _undone():
            response = case.call(headers=dict(caller.headers), cookies=dict(caller.cookies))
        statuses.add(response.status_code)
        case.validate_response(response, checks=CHECKS)

    try:
        send()
    except (FailureGroup, Failure) as failure:
        told = "\n".join(map(str, getattr(failure, "exceptions", [failure])))
        findings.faults.append(f"{operation.label}\n{told}")
    if not any(status < BAD for status in statuses):
        findings.closed.add(operation.label)


@contextmanager
def _undone() -> Iterator[None]:
    """What is done in here is done as ever, in a transaction that is the outermost, and taken back."""
    outermost: Any = transaction.atomic()
    outermost._from_testcase = True
    with outermost:
        yield
        transaction.set_rollback(True)


def _cases(operation: Operation) -> st.SearchStrategy[AnyCase]:
    return st.one_of([operation.as_strategy(generation_mode=mode) for mode in GenerationMode])


def _name_fields(case: AnyCase, known: Known) -> None:
    """Files are only in forms. What names a state or a place that nothing has is left out."""
    is_form = str(case.media_type).startswith("multipart/")
    for part in (case.body, case.query, case.headers):
        if isinstance(part, MutableMapping):
            found = cast("MutableMapping[str, Any]", part)
            for name, value in known.fields.items():
                if name in found and (is_form or not isinstance(value, bytes)):
                    found[name] = value
            for name in OF_NOTHING & set(found):
                del found[name]


def _name_places(case: AnyCase, known: Known) -> None:
    """A parameter is named by what stands before it and by itself, `domains/domain_id`, or by itself."""
    parts = case.path.split("/")
    for name in case.path_parameters or {}:
        before = parts[next(at for at, part in enumerate(parts) if f"{{{name}}}" in part) - 1]
        value = known.places.get(f"{before}/{name}", known.places.get(name))
        if value is not None:
            case.path_parameters[name] = value
