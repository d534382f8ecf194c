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
        return cls(
            host=env.get("HMI_METRICS_HOST") or "127.0.0.1",
            port=_whole(env, "HMI_METRICS_PORT", 0, most=LAST_PORT),
        )


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
            where = f"{self._settings.host}:{self._settings.port} (HMI_METRICS_HOST, HMI_METRICS_PORT)"
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


def _whole(env: Mapping[str, str], name: str, default: int, *, most: int) -> int:
    text = env.get(name)
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and int(text) <= most):
        raise SettingError(f"{name}={text!r} must be a whole number from 0 to {most}")
    return int(text)
