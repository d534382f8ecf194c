"""What is computed before a decoder takes requests."""

import pytest
import torch

from inference.generation.kv_cache import KvCache
from inference.generation.limits import GenerationLimits
from inference.generation.runner import DecoderRunner
from inference.generation.step import Outcome, Step
from inference.generation.warm_up import warm_up
from tests.unit.inference.generation.decoder_world import DecoderWorld, decoder_of, generated
from tests.unit.inference.generation.decoder_world import a_request as request_to
from tests.unit.tiny_decoder import POSITIONS, VOCAB


@pytest.mark.parametrize("blocks", [400, 3])
def test_the_largest_prompt_and_the_most_decodes_are_computed(
    blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[tuple[int, ...]] = []
    run = DecoderRunner.run

    def noted(self: DecoderRunner, step: Step) -> list[Outcome]:
        steps.append(tuple(chunk.count for chunk in step.chunks))
        return run(self, step)

    monkeypatch.setattr(DecoderRunner, "run", noted)
    decoder = decoder_of("llama")
    cache = KvCache.of(decoder, blocks, 4)
    limits = GenerationLimits(
        context=POSITIONS, vocabulary=VOCAB, blocks=blocks, block_size=4, sequences=8, step_tokens=64
    )
    warm_up(decoder, cache, limits)
    assert steps == [(min(64, 4 * blocks),), (1,) * min(8, blocks)]


def test_what_was_computed_to_warm_up_changes_no_completion() -> None:
    world = DecoderWorld(blocks=40)
    cache = world.cache
    warm_up(world.decoder, cache, world.limits)
    assert bool(torch.isfinite(cache.blocks[:, :, 0]).all())
    asked = request_to("first", "1", (5, 6, 7), 6)
    assert world.run([asked]) == [generated("llama", "1", (5, 6, 7), 6)]
