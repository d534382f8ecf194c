"""Python client of HMI's API: `Client` blocks, `AsyncClient` awaits inference."""

from hmi_client.async_client import AsyncClient
from hmi_client.client import Client
from hmi_client.errors import ApiError, FilesRejected, HmiError, JobFailed
from hmi_client.retries import Retries
from hmi_client.version import __version__

__all__ = [
    "ApiError",
    "AsyncClient",
    "Client",
    "FilesRejected",
    "HmiError",
    "JobFailed",
    "Retries",
    "__version__",
]
