"""The engine of an inference worker, in this process: what is left of a call when nothing is between."""

from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.serving.ceiling import stream_seconds
from benchmarks.serving.over_http.clients import Call
from inference.cascade.dispatcher import AnswerPolicy, Level
from inference.engine.compute_threads import with_parallel_batches
from inference.engine.executor import Executor
from inference.engine.pipeline import Pipeline
from inference.engine.pipelining import Pipelining
from inference.engine.rows import ModelIdentity, Row, work_of
from inference.hplm.devices import pick_device, pick_dtype
from inference.hplm.weight_format import WeightFormat
from inference.manifest import FILE_NAME, ManifestWatcher
from inference.serving.encoder_catalogue import EncoderCatalogue

POOL_BYTES = 1 << 30
POLICY = AnswerPolicy.TABLE
"""At which level its rows are answered."""


class Engine:
    """Serves what a manifest names; with the settings that the product has by default."""

    def __init__(self, artifact_root: Path) -> None:
        self.device = pick_device("auto")
        self.dtype: torch.dtype = pick_dtype("auto", self.device)
        self._pipeline = Pipeline(with_parallel_batches(Pipelining(), self.device))
        self._catalogue = EncoderCatalogue(
            ManifestWatcher(artifact_root / FILE_NAME),
            device=self.device,
            dtype=self.dtype,
            weights=WeightFormat.AUTO,
            pool_bytes=POOL_BYTES,
            pipeline=self._pipeline,
        )
        self._catalogue.refresh()

    def close(self) -> None:
        """End its threads."""
        self._pipeline.close()

    def batches(self, calls: Sequence[Call], *, mixed: int) -> list[list[Row]]:
        """The inputs of the calls, tokenised, in batches of as many rows as a call has inputs. Of so many
        calls that follow one another each has its share of every batch, as the worker mixes them."""
        found: list[list[Row]] = []
        for start in range(0, len(calls), mixed):
            together = [self._rows(call) for call in calls[start : start + mixed]]
            dealt = [row for rows in zip(*together, strict=True) for row in rows]
            size = len(together[0])
            found += [dealt[at : at + size] for at in range(0, len(dealt), size)]
        return found

    def seconds(self, batches: Sequence[list[Row]]) -> float:
        """What it takes to answer them."""
        (executor,) = self.executors
        return stream_seconds(executor, batches)

    @property
    def has_int8_weights(self) -> bool:
        """Whether its root is served with int8 weights."""
        return any(self._catalogue.has_int8_weights(root) for root in self._catalogue.executors)

    @property
    def executors(self) -> list[Executor]:
        """One for each root."""
        return list(self._catalogue.executors.values())

    def _rows(self, call: Call) -> list[Row]:
        served = self._catalogue.manifest.find(call.tenant, call.hplm, 1)
        assert served is not None
        model = ModelIdentity(served.tenant, served.hplm, served.version, served.digest)
        route = self._catalogue.route(model)
        root = route.executor.root
        encodings = [root.tokenizer.encode(text) for text in call.inputs]
        return [
            Row(
                str(at),
                encoding.ids,
                encoding.types,
                model,
                route.chain,
                Level.TABLE,
                work_of(len(encoding.ids), Level.TABLE, root.config),
            )
            for at, encoding in enumerate(encodings)
        ]
