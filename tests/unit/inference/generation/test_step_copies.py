"""A step of the generation engine on a GPU: its copies and waits do not grow with models, layers and options,
and its answers are those of a CPU."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import torch

from inference.decoder.decoder import Decoder
from inference.decoder.lora import DecoderLora
from inference.engine.rows import ModelIdentity
from inference.generation.kv_cache import KvCache
from inference.generation.requests import SamplingParams
from inference.generation.runner import DecoderRunner
from inference.generation.step import Outcome, SampledToken, Step
from tests.gpus import needs_triton_interpreter
from tests.pretended_cuda import PretendedCuda, pretended_cuda
from tests.unit.inference.generation.chunks import chunk
from tests.unit.inference.generation.decoder_world import random_lora
from tests.unit.tiny_decoder import tiny_decoder

pytest.importorskip("triton", reason="Triton is not installed")
pytestmark = needs_triton_interpreter
MOST_COPIES, MOST_WAITS = 6, 2
MOST_LAUNCHES, MOST_LAUNCHES_PER_LAYER = 145, 75
"""Of a step with all options and adapters whose sequences attend in five groups. Whoever saves some lowers
them."""
VOCABULARY, BLOCK_SIZE = 3000, 4
GREEDY = {"temperature": 0.0}
MANY_TOKENS = {"temperature": 2.0, "top_p": 0.999}
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "greedy": [GREEDY],
    "top_p": [{"top_p": 0.9, "seed": 5}],
    "top_p of many tokens": [MANY_TOKENS],
    "log probabilities": [GREEDY | {"logprobs": 20}],
    "penalties": [GREEDY | {"repetition_penalty": 1.2, "presence_penalty": 0.5}],
    "all": [
        GREEDY,
        {"temperature": 0.7, "top_p": 0.9, "logprobs": 3},
        {"top_k": 7, "min_p": 0.01, "seed": 9},
        MANY_TOKENS | {"repetition_penalty": 1.2, "logprobs": 20},
        GREEDY | {"presence_penalty": 0.5, "frequency_penalty": 0.5, "logprobs": 0},
    ],
}


class Loras:
    """The LoRA of the model whose digest is that number, on the decoder's device."""

    def __init__(self, decoder: Decoder, models: int) -> None:
        self._loras = [
            random_lora(decoder, number).to(decoder.device, decoder.dtype) for number in range(models)
        ]

    def lora(self, model: ModelIdentity) -> DecoderLora | None:
        return None if model.digest == "root" else self._loras[int(model.digest)]


decoder_of = cache(tiny_decoder)


def a_runner(device: str, models: int, layers: int) -> DecoderRunner:
    """A runner whose decoder, cache and LoRAs are on that device."""
    cpu = decoder_of(num_hidden_layers=layers, vocab_size=VOCABULARY)
    decoder = Decoder(cpu.architecture, {name: weight.to(device) for name, weight in cpu.weights.items()})
    cache = KvCache.of(decoder, 8 * models + 16, BLOCK_SIZE)
    return DecoderRunner(decoder, cache, Loras(decoder, models))


def steps(models: int, options: list[dict[str, Any]]) -> Iterator[Step]:
    """A step with the prompts of all models, of four lengths, and one that decodes them beside parts of two
    other prompts, of which one ends and is due a token."""
    known = [[(7 * model + at) % 256 for at in range(4 + 2 * (model % 4))] for model in range(models)]
    tables = [range(8 * model, 8 * model + 8) for model in range(models)]
    asked = [SamplingParams(max_tokens=9, **options[model % len(options)]) for model in range(models)]
    yield Step(
        tuple(
            chunk(0, len(known[model]) - 1, tables[model], name=str(model), digest=str(model))
            for model in range(models)
        )
    )
    decodes = [
        chunk(
            len(known[model]) - 1, 1, tables[model],
            name=str(model), known=known[model], prompt=3, sampling=asked[model], digest=str(model),
        )
        for model in range(models)
    ]  # fmt: skip
    other = range(8 * models, 8 * models + 16)
    parts = [
        chunk(0, 9, other[:8], name="goes on", known=range(30), digest="0"),
        chunk(0, 6, other[8:], name="ends", known=range(6), sampling=asked[0]),
    ]
    yield Step((*decodes, *parts))


def second_step(
    device: str, models: int, layers: int, options: list[dict[str, Any]], cuda: PretendedCuda
) -> list[Outcome]:
    """The outcomes of the step that decodes, which is the only one that the GPU has noted."""
    runner = a_runner(device, models, layers)
    first, second = steps(models, options)
    assert runner.run(first) == []
    cuda.clear()
    return runner.run(second)


@pytest.fixture
def cuda() -> Iterator[PretendedCuda]:
    with pretended_cuda() as device:
        yield device


@pytest.mark.parametrize("name", OPTIONS)
def test_a_step_copies_and_waits_a_few_times_whatever_is_asked_for(name: str, cuda: PretendedCuda) -> None:
    second_step("cuda", 2, 2, OPTIONS[name], cuda)
    assert len(cuda.copies) <= MOST_COPIES, cuda.copies
    assert len(cuda.waits) <= MOST_WAITS, cuda.waits


def test_copies_waits_and_launches_do_not_grow_with_models_and_copies_not_with_layers(
    cuda: PretendedCuda,
) -> None:
    noted = {}
    for models, layers in ((5, 2), (10, 2), (5, 3)):
        second_step("cuda", models, layers, OPTIONS["all"], cuda)
        noted[models, layers] = len(cuda.copies), len(cuda.waits), len(cuda.launches)
        assert len(cuda.launches) <= MOST_LAUNCHES + layers * MOST_LAUNCHES_PER_LAYER, cuda.launches
    assert noted[5, 2] == noted[10, 2]
    assert noted[5, 2][:2] == noted[5, 3][:2]
    assert noted[5, 3][2] - noted[5, 2][2] <= MOST_LAUNCHES_PER_LAYER


def test_the_answers_are_those_of_a_cpu(cuda: PretendedCuda) -> None:
    answers = [second_step(device, 5, 2, OPTIONS["all"], cuda) for device in ("cpu", "cuda")]
    for own, theirs in zip(*answers, strict=True):
        assert isinstance(own, SampledToken)
        assert isinstance(theirs, SampledToken)
        assert (own.request_id, own.digest, own.token) == (theirs.request_id, theirs.digest, theirs.token)
        assert own.logprob == pytest.approx(theirs.logprob, abs=1e-4)
        assert [token for token, _ in own.alternatives] == [token for token, _ in theirs.alternatives]


def test_decoders_share_a_stream_that_is_not_the_one_of_encoders(
    cuda: PretendedCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[object] = []
    within = torch.cuda.stream

    def noted(stream: Any) -> Any:
        used.append(stream)
        return within(stream)

    monkeypatch.setattr(torch.cuda, "stream", noted)
    for _ in range(2):
        first, second = steps(1, [GREEDY])
        runner = a_runner("cuda", 1, 2)
        runner.run(first)
        runner.run(second)
    assert len(used) == 4
    assert len(set(used)) == 1
    assert None not in used
    assert torch.cuda.current_stream() not in used
