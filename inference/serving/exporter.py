"""Where the inference worker's metrics can be read, over HTTP."""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server

from inference.periodic_thread import PeriodicThread
from inference.serving.environment import SettingError

log = logging.getLogger(__name__)

ADDRESS = "HMI_METRICS_ADDRESS"
LAST_PORT = 65535
RETRY_S = 5.0


@dataclass(frozen=True, slots=True)
class ExporterSettings:
    """Where metrics are served; ``port`` 0 means nowhere."""

    host: str
    port: int

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> "ExporterSettings":
        """Raises SettingError."""
        text = env.get(ADDRESS, "").strip()
        host, _, port = text.rpartition(":")
        if text and not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= LAST_PORT):
            raise SettingError(f"{ADDRESS}={text!r} must be a port up to {LAST_PORT}, or host:port")
        return cls(host=host.strip("[]") or "127.0.0.1", port=int(port or 0))


class Exporter:
    """Answers scrapes while entered, from threads of its own.

    An address that cannot be had is said in the log and tried again until it can: the worker it would go with
    may still be answering its last requests, and to be watched is not worth an outage.
    """

    def __init__(
        self, registry: CollectorRegistry, settings: ExporterSettings, *, retry_s: float = RETRY_S
    ) -> None:
        self._registry = registry
        self._settings = settings
        self._retries = PeriodicThread("exporter", lambda: self._listen() is not None, interval_s=retry_s)
        self._server: WSGIServer | None = None

    def __enter__(self) -> Self:
        if self._settings.port and (error := self._listen()):
            where = f"{self._settings.host}:{self._settings.port} ({ADDRESS})"
            log.error("metrics cannot be read at %s: %s; requests are answered all the same", where, error)
            self._retries.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._retries.stop()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def _listen(self) -> OSError | None:
        """Why the address cannot be had, None when it could."""
        host, port = self._settings.host, self._settings.port
        try:
            self._server, _ = start_http_server(port, host, self._registry)
        except OSError as error:
            return error
        log.info("metrics can be read at http://%s:%d/metrics", host, port)
        return None
