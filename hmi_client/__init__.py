"""Python client of HMI's API: `Client` blocks, `AsyncClient` is awaited."""

from hmi_client.client import AsyncClient, Client
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
