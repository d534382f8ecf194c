"""The blocking client."""

from types import TracebackType
from typing import Self

from hmi_client.operations.batches import BatchMethods
from hmi_client.operations.domains import DomainMethods
from hmi_client.operations.infer import InferMethods
from hmi_client.operations.tenants import TenantMethods
from hmi_client.operations.training import TrainingMethods
from hmi_client.operations.transfer import TransferMethods
from hmi_client.operations.webhooks import WebhookMethods


class Client(
    TenantMethods,
    InferMethods,
    TrainingMethods,
    DomainMethods,
    BatchMethods,
    TransferMethods,
    WebhookMethods,
):
    """The blocking client. ``url`` and ``api_key`` default to HMI_URL and HMI_API_KEY.

    Pass an ``httpx.Client`` as ``http`` to configure proxies or certificates. Threads may share a client.
    """

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
