"""The addresses that the requests of a batch may be for."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from inference.api.inputs import invalid
from inference.batches.models import EMBEDDINGS, INFER

__all__ = ["EMBEDDINGS", "INFER", "Endpoint", "Infer", "endpoint_of", "register_endpoint"]

FIELDS: Final = {"model", "inputs"}


class Endpoint(Protocol):
    """What requests to one address say, and are answered with. ``embeds``: texts become vectors."""

    embeds: bool

    def read(self, body: Mapping[str, Any]) -> tuple[object, object]:
        """The inputs in the body of a request, and how it wants its answer. Raises HmiError."""
        ...

    def body(self, results: Sequence[dict[str, Any]], model: str, how: Any) -> dict[str, Any]:
        """The answer of the version that is called so. Raises HmiError where it cannot be as it is wanted."""
        ...


class Infer:
    """The product's own: ``{"model", "inputs"}``."""

    embeds = False

    def read(self, body: Mapping[str, Any]) -> tuple[object, object]:
        for name in body.keys() - FIELDS:
            raise invalid(None, f"The body of a request has the fields model and inputs, not {name[:64]!r}.")
        return body.get("inputs"), None

    def body(self, results: Sequence[dict[str, Any]], model: str, how: Any) -> dict[str, Any]:
        return {"model": model, "results": list(results)}


_endpoints: dict[str, Endpoint] = {INFER: Infer()}


def register_endpoint(url: str, endpoint: Endpoint) -> None:
    """Have requests to another address answered in batches. Called once, while Django starts."""
    _endpoints[url] = endpoint


def endpoint_of(url: str) -> Endpoint:
    """How requests to this address, one of ``ENDPOINTS``, are read and answered."""
    return _endpoints[url]
