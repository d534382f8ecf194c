"""A client of HMI's API: ``Client`` blocks, ``AsyncClient`` is awaited. Needs neither Django nor PyTorch."""

from hmi_client.client import AsyncClient, Client
from hmi_client.errors import ApiError, FilesRefused, HmiError, JobEnded
from hmi_client.retries import Retries

__all__ = ["ApiError", "AsyncClient", "Client", "FilesRefused", "HmiError", "JobEnded", "Retries"]
