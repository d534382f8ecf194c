"""Whether the level or the label of a text depends on what else is computed: it must not.

The same texts are asked alone, in full batches, under load among those of other models, and by another
process. What differs from the answer to the text alone is counted.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, Final

import numpy as np
import torch

from benchmarks.frontier.engine import Branch, CascadeServer, Engine, Question, TrainedModel
from benchmarks.serving.open_loop import serve
from inference.cascade.dispatcher import AnswerPolicy
from inference.engine.batcher import BatchLimits
from inference.engine.compute_threads import with_parallel_batches
from inference.engine.pipeline import Pipeline
from inference.engine.pipelining import Pipelining

FORMATS: Final = ("float32", "bfloat16")
PATHS: Final = ("batch", "load", "restart", "any")
TEXTS: Final = 10_000
BATCH: Final = BatchLimits()
ALONE: Final = BatchLimits(rows=1)
MEAN_GAP_S: Final = 0.01
"""Between texts under load: batches have as many rows as have come while the one before was computed."""
Answer = tuple[str, str]
"""The level of a text, and its label or spans; of a number, which has no label, the level alone."""


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """Everything that the engine of a process needs, and what it is asked."""

    branch: Branch
    models: Mapping[str, TrainedModel]
    asked: Sequence[Question]
    number_format: str


def path_flips(load: Load) -> dict[str, float]:
    """The share of the texts whose level or label differs from that of the text alone: in full batches
    (`batch`), under load (`load`), in another process (`restart`), and on any path (`any`)."""
    alone = _in_batches(load, ALONE)
    found = {"batch": _in_batches(load, BATCH), "load": _under_load(load), "restart": _after_restart(load)}
    return flip_shares(alone, found)


def flip_shares(alone: Sequence[Answer], found: Mapping[str, Sequence[Answer]]) -> dict[str, float]:
    """By path the share of the answers that differ from those to the texts alone, and of texts that differ on
    `any` path."""
    differs = {
        name: np.asarray([one != other for one, other in zip(answers, alone, strict=True)])
        for name, answers in found.items()
    }
    differs["any"] = np.logical_or.reduce(list(differs.values()))
    return {name: float(flags.mean()) for name, flags in differs.items()}


def _in_batches(load: Load, limits: BatchLimits) -> list[Answer]:
    """In the order of the texts, as many together as `limits` allows."""
    engine = Engine(load.branch, load.models, number_format=load.number_format)
    return _answers(engine, load.asked, np.zeros(len(load.asked)), limits)


def _under_load(load: Load) -> list[Answer]:
    """In another order, so that models mix; they come at random, and batches compute side by side."""
    draw = np.random.default_rng(1)
    order = draw.permutation(len(load.asked))
    at = np.cumsum(draw.exponential(MEAN_GAP_S, len(order)))
    pipeline = Pipeline(with_parallel_batches(Pipelining(), torch.device("cpu")))
    try:
        engine = Engine(load.branch, load.models, number_format=load.number_format, pipeline=pipeline)
        found = _answers(engine, [load.asked[place] for place in order], at, BATCH)
    finally:
        pipeline.close()
    return [found[place] for place in np.argsort(order)]


def _after_restart(load: Load) -> list[Answer]:
    """By a new process, which reads everything from its files, in full batches of yet another order."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_restarted, load, torch.get_num_threads()).result()


def _restarted(load: Load, threads: int) -> list[Answer]:
    torch.set_num_threads(threads)
    order = np.random.default_rng(2).permutation(len(load.asked))
    asked = [load.asked[place] for place in order]
    found = _in_batches(Load(load.branch, load.models, asked, load.number_format), BATCH)
    return [found[place] for place in np.argsort(order)]


def _answers(
    engine: Engine, asked: Sequence[Question], at: np.ndarray[Any, np.dtype[np.float64]], limits: BatchLimits
) -> list[Answer]:
    server = CascadeServer(engine.executor, limits)
    serve(server, at, engine.rows(asked, AnswerPolicy.CASCADE), deadline_s=np.inf)
    return [
        _answer(engine.result(one, server.answers[str(place)], server.from_tables.get(str(place))))
        for place, one in enumerate(asked)
    ]


def _answer(result: Mapping[str, Any]) -> Answer:
    level = f"{result['level']}, after table" if "table" in result else str(result["level"])
    if "spans" in result:
        return level, str([(span["start"], span["end"], span["label"]) for span in result["spans"]])
    return level, str(result.get("label", result.get("labels", "")))
