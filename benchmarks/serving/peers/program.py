"""One peer, in a process and an environment of its own: builds an encoder, then runs the batches it is told.

`python -m benchmarks.serving.peers.program SETTINGS` (those of `schemes`, as JSON). It first says
{"ready": …}, then one line to each line of its input, and ends when its input does:

    {"rows": 32, "tokens": 128, "tenants": 4, "seed": 7}                  {"seconds": 0.31}
    {"rows": 32, "tokens": 128, "tenants": 4, "seed": 7, "check": true}   {"difference": 0.004, "apart": 0.8}

or {"error": …} instead.
"""

import json
import sys
import time
from typing import Any

import torch

from benchmarks.serving.peers.json_lines import serve, versions
from benchmarks.serving.peers.schemes import SCHEMES, Batch, Settings

WARM_UPS = 2
PACKAGES = ("torch", "transformers", "adapters", "peft")


class Bench:
    """Answers requests by a scheme."""

    def __init__(self, settings: Settings) -> None:
        torch.set_num_threads(settings.threads)
        self._settings = settings
        self._scheme = SCHEMES[settings.scheme](settings)
        self._warm: set[tuple[int, int, int]] = set()

    def ready(self) -> dict[str, Any]:
        """What stands here."""
        return {"resident": self._scheme.resident, "versions": dict(versions(PACKAGES))}

    @torch.inference_mode()
    def answer(self, *, check: bool = False, **request: int) -> dict[str, float]:
        """The answer to one request."""
        batch = Batch.draw(self._settings, self._scheme.resident, **request)
        if check:
            return self._check(batch)
        shape = (*batch.ids.shape, request["tenants"])
        for _ in range(0 if shape in self._warm else WARM_UPS):
            self._seconds(batch)
        self._warm.add(shape)
        return {"seconds": self._seconds(batch)}

    def _seconds(self, batch: Batch) -> float:
        started = time.perf_counter()
        self._scheme.run(batch.ids.to(self._settings.device), batch)
        self._finish()
        return time.perf_counter() - started

    def _finish(self) -> None:
        if torch.device(self._settings.device).type == "cuda":
            torch.cuda.synchronize(self._settings.device)

    def _check(self, batch: Batch) -> dict[str, float]:
        """How far the rows of the mixed batch are from the same rows alone, at most, in standard deviations;
        and how far those are, on average, from what another tenant of the batch is answered to them."""
        ids = batch.ids.to(self._settings.device)
        mixed = self._scheme.run(ids, batch).float()
        rows = torch.split(ids, 1)
        alone = torch.cat(
            [self._scheme.alone(row, owner).float() for row, owner in zip(rows, batch.owners, strict=True)]
        )
        others = batch.owners[::-1]
        wrong = torch.cat(
            [self._scheme.alone(row, owner).float() for row, owner in zip(rows, others, strict=True)]
        )
        different = torch.tensor([a != b for a, b in zip(batch.owners, others, strict=True)])
        deviation = alone.std()
        apart = (wrong - alone)[different].abs().mean() if different.any() else torch.zeros(())
        return {
            "difference": float((mixed - alone).abs().max() / deviation),
            "apart": float(apart / deviation),
        }


def main() -> int:
    """Answer until the input ends."""
    return serve(lambda: Bench(Settings(**json.loads(sys.argv[1]))))


if __name__ == "__main__":
    sys.exit(main())
