"""A whole installation without the launcher, which would start again what a test has killed."""

import os
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import pytest
import torch
from django.conf import settings

from hmi_site.launcher.web_server import choose_port
from hmi_site.server_urls import EMBEDDED_ROLE
from inference.hplm.hplm import Hplm
from inference.hplm.plot import PlotChain, PlotTable
from inference.hplm.root import Root
from inference.manifest import FILE_NAME, Manifest, ServedHplm
from inference.queueing.connection import connect
from inference.text.predictions import ClassPrediction
from tenants.base.errors import HTTP_STATUS, ErrorCode
from tests.integration.inference.queueing.requests import depth
from tests.integration.serving_faults.servers import OwnPostgres, Web
from tests.processes import CHECKOUT, InferenceWorker, wait_until
from tests.reference_hplm import predict_reference
from tests.services import OwnValkey

PASSWORD = "medlar and rowan"


class Installation:
    """PostgreSQL, Valkey, web and inference worker, with more settings where they are given; its tenant
    ``acme`` has the model ``mood``, ready."""

    def __init__(self, home: Path, **more: str) -> None:
        self._artifacts = home / "artifacts"
        self._ending = ExitStack()
        self.postgres = OwnPostgres(home, binaries=settings.HMI_POSTGRES_BIN)
        self.valkey = OwnValkey(home, binary=settings.HMI_REDIS_BIN)
        self._env = {
            "DJANGO_SETTINGS_MODULE": "hmi_site.settings",
            "DATABASE_URL": f"postgresql:///hmi?host={self.postgres.host}&user={EMBEDDED_ROLE}",
            "REDIS_URL": self.valkey.url,
            "HMI_HOME": str(home),
            "HMI_ARTIFACT_ROOT": str(self._artifacts),
            "HMI_UPLOAD_ROOT": str(home / "uploads"),
            "HMI_SECRET_KEY": settings.SECRET_KEY,
            "HMI_POLICY": "table",  # what `alone` says
            **more,
        }
        self._more: dict[str, Any] = {**more}
        port = choose_port("127.0.0.1", 18_900)
        self._ending.enter_context(port.listener)
        self.web = Web(port, self._env, home / "web.log")
        self._worker: InferenceWorker | None = None
        self.redis = self._ending.enter_context(connect(self.valkey.url))
        self._pool = self._ending.enter_context(ThreadPoolExecutor(32))
        self._scratch = home / "scratch"
        self.key = ""

    @property
    def worker(self) -> InferenceWorker:
        assert self._worker is not None
        return self._worker

    def __enter__(self) -> Self:
        """Made once; nothing runs but the servers."""
        self.postgres.start()
        self.valkey.start()
        self.postgres.create_database("hmi")
        filling = ["-m", "tests.integration.serving_faults.fill", str(self._scratch), PASSWORD]
        env = {**os.environ, **self._env}
        done = subprocess.run(
            [sys.executable, *filling], cwd=CHECKOUT, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        self.key = done.stdout.split()[-1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._worker is not None:
            self._worker.kill()
        for server in (self.web, self.valkey, self.postgres):
            server.stop()
        self._ending.close()

    def heal(self) -> None:
        """Start what does not run; returns when it says that it is ready."""
        for server in (self.postgres, self.valkey):
            if not server.runs():
                server.start()
        if self._worker is None or self._worker.process.poll() is not None:
            self._worker = InferenceWorker(self.valkey.url, self._artifacts, **self._more)
        if not self.web.runs():  # while the worker gets ready
            self.web.start()
        self._worker.resume()
        wait_until(lambda: self.get("/health/ready").status_code == 200, self._worker)

    def get(self, path: str) -> httpx.Response:
        """GET, from a new connection."""
        return httpx.get(f"{self.web.url}{path}", trust_env=False, timeout=60)

    def ask(self, text: str, *, key: str = "", model: str = "acme/mood", **more: object) -> httpx.Response:
        """What ``mood`` says to the text, asked with the tenant's key."""
        return httpx.post(
            f"{self.web.url}/api/v1/infer",
            json={"model": model, "inputs": [text], **more},
            headers={"Authorization": f"Bearer {key or self.key}"},
            trust_env=False,
            timeout=60,
        )

    def asking(self, *texts: str) -> "dict[str, Future[httpx.Response]]":
        """Ask for each text at the same time; returns when all are accepted and wait for the worker."""
        before = self.waiting()
        asked = {text: self._pool.submit(self.ask, text) for text in texts}
        wait_until(lambda: self.waiting() == before + len(texts), self.worker)
        return asked

    def waiting(self) -> int:
        """Requests that are accepted and not answered."""
        return depth(self.redis)

    def served(self) -> ServedHplm:
        """What the manifest says of ``mood``."""
        return self._manifest().hplms["acme", "mood", 1]

    def alone(self, text: str) -> ClassPrediction:
        """What it says when it is run alone, in plain PyTorch."""
        manifest, served = self._manifest(), self.served()
        root = Root.load(manifest.folder("root", served.root), torch.device("cpu"), torch.float32)
        chain = PlotChain([PlotTable.open(manifest.folder("plot", digest)) for digest in served.plots])
        prediction = predict_reference(root, chain, Hplm.load(manifest.folder("hplm", served.digest)), text)
        assert isinstance(prediction, ClassPrediction)
        return prediction

    def assert_right(self, answer: httpx.Response, text: str) -> None:
        """The answer is that of ``mood``, and says so."""
        assert answer.status_code == 200, answer.text
        body = answer.json()
        assert body["model"]["digest"] == self.served().digest
        assert body["results"][0]["scores"] == pytest.approx(self.alone(text).scores, abs=1e-4)

    def _manifest(self) -> Manifest:
        return Manifest.load(self._artifacts / FILE_NAME)


def assert_refused(answer: httpx.Response, code: ErrorCode) -> None:
    """A typed error, which says when to come back."""
    assert (answer.status_code, answer.json()["error"]["code"]) == (HTTP_STATUS[code], code), answer.text
    assert int(answer.headers["Retry-After"]) > 0
