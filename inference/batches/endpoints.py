"""The endpoints that requests in batches may be for. Other apps register theirs here."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from inference.api.prepared_request import text_codec
from inference.api.validation import check_inputs, default_policy, fit_inputs, invalid, parse_call
from inference.batches.inference_client import BatchInferClient, InferenceResults
from inference.batches.models import CHAT_COMPLETIONS, COMPLETIONS, INFER
from inference.queueing.messages import ModelRef
from inference.queueing.replies import InferClient
from inference.text.encodings import InferInput
from versiontree.tree.resolution import ResolvedModel, require_encoder

MAX_REQUEST_INPUTS: Final = 256
MAX_IN_FLIGHT: Final = 4


class BatchClient(Protocol):
    """Sends inputs to one version of a model. Threads may share it."""

    @property
    def is_isolating_crashes(self) -> bool:
        """Whether inputs that stop workers are being searched for, which must not be interrupted."""

    def infer(self, line: int, inputs: Sequence[Any]) -> InferenceResults:
        """One result per input, the first of which is on line ``line``. Raises InferenceCancelled; HmiError
        if no worker can answer any."""

    def cancel(self) -> None:
        """Cancel the outstanding requests."""


class Endpoint(Protocol):
    """Parses, computes and formats requests to one URL in batches.

    ``max_inputs`` of consecutive lines are one request to the workers, and ``max_in_flight`` such requests
    are queued or computed at a time.
    """

    max_inputs: int
    max_in_flight: int

    def check_model(self, model: ResolvedModel) -> ResolvedModel:
        """The model, if it answers such requests. Raises ``invalid_field`` if not."""

    def parse_body(self, body: Mapping[str, Any], model: ResolvedModel) -> tuple[tuple[Any, ...], object]:
        """The inputs of a request body, for the client, and options for ``response_body``. Raises
        HmiError."""

    def response_body(self, results: Sequence[dict[str, Any]], model: str, options: Any) -> dict[str, Any]:
        """The body of the response. Raises HmiError if the options do not fit the results."""

    def open_client(self, client: InferClient, model: ResolvedModel, batch: str) -> BatchClient:
        """What sends the inputs of the batch of this id to the version."""


class EncoderEndpoint:
    """Base of the endpoints of models that read texts. ``embeds``: the results are embeddings."""

    max_inputs = MAX_REQUEST_INPUTS
    max_in_flight = MAX_IN_FLIGHT
    embeds = False

    def check_model(self, model: ResolvedModel) -> ResolvedModel:
        return require_encoder(model, embed=self.embeds)

    def open_client(self, client: InferClient, model: ResolvedModel, batch: str) -> BatchClient:
        codec = text_codec(
            root=model.root_digest, version=model.digest, cascade=model.cascade, embed=self.embeds
        )
        plan = codec.plan(default_policy(model.policy))
        return BatchInferClient(client, model_ref(model), model.root_digest, batch, codec, plan)


class InferEndpoint(EncoderEndpoint):
    """``/api/v1/infer`` with bodies of ``{"model", "inputs"}``."""

    def parse_body(
        self, body: Mapping[str, Any], model: ResolvedModel
    ) -> tuple[tuple[InferInput, ...], object]:
        for name in body.keys() - {"model", "inputs"}:
            raise invalid(None, f"The body of a request has the fields model and inputs, not {name[:64]!r}.")
        call = parse_call({"model": body.get("model"), "inputs": body.get("inputs")})
        return fit_inputs(call.inputs, task=model.task, pairs=model.pairs), None

    def response_body(self, results: Sequence[dict[str, Any]], model: str, options: Any) -> dict[str, Any]:
        return {"model": model, "results": list(results)}


_endpoints: dict[str, Endpoint] = {INFER: InferEndpoint()}


def register_endpoint(url: str, endpoint: Endpoint) -> None:
    """Allow requests to this URL in batches. Called while Django starts."""
    _endpoints[url] = endpoint


def endpoint_of(url: str) -> Endpoint:
    """The endpoint registered for this URL, one of ``ENDPOINTS``."""
    return _endpoints[url]


def parse_input(value: Any, model: ResolvedModel) -> tuple[Any, ...]:
    """An input of the model, for its client. Those of a generative model are a prompt, or a body of
    ``/v1/chat/completions`` or ``/v1/completions`` without the ``model``. Raises HmiError."""
    if not model.is_generative:
        return fit_inputs(check_inputs([value]), task=model.task, pairs=model.pairs)
    body = {"prompt": value} if isinstance(value, str) else value
    if not isinstance(body, dict) or "model" in body:
        raise invalid(None, 'The line is a prompt, or an object with "prompt" or "messages".')
    endpoint = endpoint_of(CHAT_COMPLETIONS if "messages" in body else COMPLETIONS)
    inputs, _ = endpoint.parse_body({**body, "model": model.model_name}, model)
    return inputs


def model_ref(model: ResolvedModel) -> ModelRef:
    """The version as inference workers know it."""
    return ModelRef(model.tenant_slug, model.model_name, model.version_number, model.digest)
