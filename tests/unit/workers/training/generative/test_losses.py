"""The loss of packed completions: that of transformers, of completions alone, and of each row by itself."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from inference.decoder.decoder import Decoder
from tests.unit.tiny_decoder import FAMILIES, LAYERS, tiny_decoder, tiny_decoder_model
from tests.unit.workers.training.generative.world import tiny_tokenizer
from tests.unit.workers.training.world import NullReporter
from workers.training.generative.frozen_states import FrozenStates
from workers.training.generative.lora_parameters import LoraParameters, LoraSpec
from workers.training.generative.packing import TrainingSequence
from workers.training.generative.rows import PromptRow
from workers.training.generative.training import GenerativeSplit, completion_loss, split_loss

ROWS = [PromptRow("name: Aromi ", "a pub"), PromptRow("b", "no"), PromptRow("what is it? ", "a city, maybe")]


def sequences() -> list[TrainingSequence]:
    found = [tiny_tokenizer().sequence(row) for row in ROWS]
    return [one for one in found if one is not None]


def split(decoder: Decoder, folder: Path, first: int = 0) -> GenerativeSplit:
    return GenerativeSplit(sequences(), FrozenStates(decoder, sequences(), first, NullReporter(), folder))


def parameters(decoder: Decoder, first: int = 0) -> LoraParameters:
    """A LoRA that changes every projection from layer `first` on."""
    generator = torch.Generator().manual_seed(1)
    spec = LoraSpec(rank=3, alpha=6.0, layers=range(first, LAYERS))
    lora = LoraParameters.initial(decoder.architecture, spec, generator)
    with torch.no_grad():
        for b in lora.b.values():
            b.normal_(std=0.1, generator=generator)
    return lora.eval()


def gradients(lora: LoraParameters, loss: Tensor) -> dict[str, Tensor]:
    lora.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    return {name: value.grad.clone() for name, value in lora.named_parameters() if value.grad is not None}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_loss_is_that_of_transformers_with_the_prompt_masked(family: str, tmp_path: Path) -> None:
    decoder, model = tiny_decoder(family), tiny_decoder_model(family)
    of_rows = []
    for sequence in sequences():
        ids = torch.from_numpy(sequence.ids)[None]
        labels = ids.clone()
        labels[0, 1:][~torch.from_numpy(sequence.learned)] = -100
        labels[0, 0] = -100
        with torch.no_grad():
            of_rows.append((float(model(input_ids=ids, labels=labels).loss), sequence.targets))
    expected = sum(loss * count for loss, count in of_rows) / sum(count for _, count in of_rows)
    found = split(decoder, tmp_path)
    assert float(completion_loss(decoder, None, found, [0, 1, 2])) == pytest.approx(expected, rel=1e-4)
    assert split_loss(decoder, None, found, 20, NullReporter()) == pytest.approx(expected, rel=1e-4)


def test_packed_rows_have_the_gradients_that_they_have_alone(tmp_path: Path) -> None:
    decoder = tiny_decoder()
    lora, found = parameters(decoder), split(decoder, tmp_path)
    packed = gradients(lora, completion_loss(decoder, lora, found, [2, 0, 1]))
    targets = [one.targets for one in found.sequences]
    alone = [gradients(lora, completion_loss(decoder, lora, found, [index])) for index in range(3)]
    assert len(packed) == 2 * 7 * LAYERS
    for name, gradient in packed.items():
        expected = sum(count * one[name] for count, one in zip(targets, alone, strict=True)) / sum(targets)
        torch.testing.assert_close(gradient, expected, rtol=1e-3, atol=1e-6)
        assert gradient.abs().max() > 1e-6


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_layers_that_do_not_learn_are_computed_once_with_the_same_loss(
    dtype: torch.dtype, tmp_path: Path
) -> None:
    whole = tiny_decoder()
    decoder = Decoder.from_weights(whole.architecture, whole.weights, dtype=dtype)
    lora = parameters(decoder, first=2)
    computed = completion_loss(decoder, lora, split(decoder, tmp_path), [0, 1, 2])
    calls: list[range | None] = []
    run_layers = decoder.run_layers

    def counted(*args: object, **kwargs: object) -> Tensor:
        calls.append(args[4] if len(args) > 4 else kwargs["layers"])  # type: ignore[arg-type]
        return run_layers(*args, **kwargs)  # type: ignore[arg-type]

    decoder.run_layers = counted  # type: ignore[method-assign]
    found = split(decoder, tmp_path, first=2)
    losses = [completion_loss(decoder, lora, found, indices) for indices in ([0, 1, 2], [2, 1, 0])]
    assert calls == [range(2), range(2, LAYERS), range(2, LAYERS)]
    tolerance = 1e-4 if dtype == torch.float32 else 2e-2
    for loss in losses:
        assert float(loss) == pytest.approx(float(computed), rel=tolerance)
