"""What schemathesis makes of the description of the API, sent to the real views; what it did is undone."""

from collections.abc import Callable, Container, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any, cast

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.core.result import Ok
from schemathesis.core.transport import Response
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tenants.accounts.models import ApiKey, User
from tests.integration.contract.good import good_case
from tests.integration.contract.known import Known, Named
from tests.integration.fuzz.cases import TIMES
from tests.integration.fuzz.requests import undone

EXAMPLES = max(2, ceil(16 * TIMES))
BAD = 400
OF_A_TENANT = "/api/v1/tenants/{tenant}/"
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
AnyCase = Case[Any]
Operation = APIOperation[Any, Any, Any, Any]
OF_NOTHING = {"cursor", "after", "Authorization"}
MOSTLY = st.sampled_from([True, True, True, False])
QUIET = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@dataclass(frozen=True)
class Caller:
    """Who asks, and the headers and cookies that say so."""

    actor: User | ApiKey
    headers: Mapping[str, str]
    cookies: Mapping[str, str] = field(default_factory=dict)


def operations(door: Any, wanted: Callable[[str], bool]) -> Iterator[Operation]:
    """Those at the addresses wanted, as the served description has them."""
    described = schemathesis.openapi.from_wsgi("/api/schema/?format=json", door)
    for result in described.get_all_operations():
        assert isinstance(result, Ok), result
        if wanted(result.ok().path):
            yield result.ok()


@dataclass
class Findings:
    """What was wrong with the first wrong answer of each operation; and what the operations answered that did
    not do what a good request asked for."""

    faults: list[str] = field(default_factory=list)
    closed: dict[str, str] = field(default_factory=dict)


def probe_all(
    door: Any, caller: Caller, known: Known, wanted: Callable[[str], bool], tried: Container[str] = ()
) -> dict[str, str]:
    """Probe the operations at the addresses wanted. What refused a good request, and in which words. Fails
    with all wrong answers. Those whose views were `tried` at another address get a good request alone, but
    where all made-up requests are wanted."""
    findings = Findings()
    for operation in operations(door, wanted):
        made_up = TIMES >= 1 or operation.path.replace(OF_A_TENANT, "/api/v1/") not in tried
        probe(operation, caller, known, findings, made_up=made_up)
    assert not findings.faults, "\n\n".join(findings.faults)
    return findings.closed


def probe(operation: Operation, caller: Caller, known: Known, findings: Findings, *, made_up: bool) -> None:
    """Send a good request, and then, if they are wanted, made-up ones of all kinds."""
    own = known.own(operation.label)

    def answer(case: AnyCase) -> Response:
        with undone():
            # Without a network, nothing decompresses an answer.
            headers = {"Accept-Encoding": "identity", **caller.headers}
            response = case.call(headers=headers, cookies=dict(caller.cookies))
        case.validate_response(response, checks=CHECKS)
        return response

    @QUIET
    @given(case=_cases(operation), places=MOSTLY, fields=MOSTLY)
    def send(case: AnyCase, places: bool, fields: bool) -> None:
        if places:
            _name_places(case, known, own)
        if fields:
            _name_fields(case, {**known.fields, **own})
        answer(case)

    try:
        good = answer(good_case(operation, known))
        if good.status_code >= BAD:
            findings.closed[operation.label] = _told(good)
        if made_up:
            send()
    except (FailureGroup, Failure) as failure:
        told = "\n".join(map(str, getattr(failure, "exceptions", [failure])))
        findings.faults.append(f"{operation.label}\n{told}")


def _told(response: Response) -> str:
    """The sentence of a refusal."""
    error = response.json()["error"]
    return str(error["message"] if isinstance(error, dict) else error)


def _cases(operation: Operation) -> st.SearchStrategy[AnyCase]:
    return st.one_of([operation.as_strategy(generation_mode=mode) for mode in GenerationMode])


def _name_fields(case: AnyCase, fields: Named) -> None:
    """Files are only in forms. What names a state or a place that nothing has is left out."""
    is_form = str(case.media_type).startswith("multipart/")
    for part in (case.body, case.query, case.headers):
        if isinstance(part, MutableMapping):
            found = cast("MutableMapping[str, Any]", part)
            for name, value in fields.items():
                if name in found and (is_form or not isinstance(value, bytes)):
                    found[name] = value
            for name in OF_NOTHING & set(found):
                del found[name]


def _name_places(case: AnyCase, known: Known, own: Named) -> None:
    for name in case.path_parameters or {}:
        value = own.get(name, known.place(case.path, name))
        if value is not None:
            case.path_parameters[name] = value
