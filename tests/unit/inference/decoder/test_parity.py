"""Every family gives the numbers that transformers gives."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some
from torch import Tensor
from transformers import PreTrainedModel

from inference.decoder.decoder import Decoder
from inference.decoder.dense_attention import DenseAttention
from inference.decoder.lora_layout import changed_maps, is_adapter
from inference.hplm.sequences import PackedSequences
from tests.unit.inference.decoder.packing import logits_of, random_sequences
from tests.unit.tiny_decoder import FAMILIES, WINDOW, tiny_decoder, tiny_decoder_model

LENGTHS = (WINDOW - 1, 1, WINDOW, WINDOW + 1, 9, 9, 40)
LLAMA_3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
WINDOWS = {"use_sliding_window": True, "sliding_window": WINDOW}
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((family, {}) for family in FAMILIES),
    ("llama", {"attention_bias": True, "mlp_bias": True}),
    ("llama", {"hidden_act": "gelu", "rms_norm_eps": 0.1}),
    ("llama", {"vocab_size": 263}),
    ("llama", {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10_000.0}}),
    (
        "llama",
        {
            "rope_parameters": {
                **LLAMA_3,
                "rope_type": "llama3",
                "rope_theta": 500.0,
                "original_max_position_embeddings": 32,
            }
        },
    ),
    ("mistral", {"sliding_window": None}),
    ("mistral", {"sliding_window": 1, "head_dim": 24}),
    ("mistral", {"sliding_window": 39, "tie_word_embeddings": False}),
    ("qwen2", {**WINDOWS, "max_window_layers": 1}),
    ("qwen3", {"attention_bias": True}),
    ("qwen3", {**WINDOWS, "layer_types": ["full_attention", "sliding_attention", "full_attention"]}),
    ("gemma3_text", {"attention_bias": True, "hidden_activation": "silu"}),
    ("gemma3_text", {"layer_types": None, "rope_parameters": None, "sliding_window_pattern": 2}),
    ("smollm3", {"no_rope_layers": None, "no_rope_layer_interval": 2, **WINDOWS}),
    ("smollm3", {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": False}),
    ("granite", {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": False}),
    ("granite", {"embedding_multiplier": 3.0, "attention_multiplier": 1.0, "logits_scaling": 0.5}),
    ("phi3", {"sliding_window": None, "rope_parameters": {"rope_type": "default", "rope_theta": 100.0}}),
    ("phi3", {"num_attention_heads": 2, "num_key_value_heads": 1}),
    ("gpt2", {"n_inner": 37, "activation_function": "relu", "tie_word_embeddings": False}),
    ("gpt2", {"n_embd": 54, "n_head": 3, "activation_function": "gelu_pytorch_tanh"}),
    ("opt", {"enable_bias": False}),
    ("opt", {"activation_function": "gelu", "tie_word_embeddings": False}),
]


def expected_of(model: PreTrainedModel, sequences: list[Tensor]) -> list[Tensor]:
    """Logits [T, vocab] of each sequence, computed alone by transformers."""
    return [model(sequence[None]).logits[0] for sequence in sequences]


def assert_same_numbers(family: str, **changes: Any) -> None:
    sequences = random_sequences(LENGTHS)
    with torch.no_grad():
        found = torch.cat(logits_of(tiny_decoder(family, **changes), sequences))
        expected = torch.cat(expected_of(tiny_decoder_model(family, **changes), sequences))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=2e-5 * float(expected.std()))


@pytest.mark.parametrize(("family", "changes"), VARIANTS)
def test_a_decoder_gives_the_logits_of_transformers(family: str, changes: dict[str, Any]) -> None:
    assert_same_numbers(family, **changes)


@settings(max_examples=15)
@given(
    family=some.sampled_from(["llama", "mistral", "qwen2", "qwen3", "granite"]),
    shared=some.integers(1, 3),
    kv_heads=some.integers(1, 3),
    half_head=some.integers(1, 9),
    hidden=some.integers(1, 5),
    inner=some.integers(1, 70),
    tied=some.booleans(),
    theta=some.sampled_from([100.0, 10_000.0, 1_000_000.0]),
)
def test_whatever_the_widths_the_logits_are_those_of_transformers(
    family: str,
    shared: int,
    kv_heads: int,
    half_head: int,
    hidden: int,
    inner: int,
    tied: bool,
    theta: float,
) -> None:
    heads = shared * kv_heads
    assert_same_numbers(
        family,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=2 * half_head,
        hidden_size=hidden * heads if family != "qwen2" else 2 * half_head * heads,
        intermediate_size=inner,
        tie_word_embeddings=tied,
        rope_parameters={"rope_type": "default", "rope_theta": theta},
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_half_precision_is_close_to_single_precision(family: str) -> None:
    sequences = random_sequences(LENGTHS)
    decoder = tiny_decoder(family)
    half_model: Any = tiny_decoder_model(family)
    half_model.to(torch.bfloat16)
    half = Decoder.from_weights(decoder.architecture, decoder.weights, dtype=torch.bfloat16)
    with torch.no_grad():
        exact = torch.cat(logits_of(decoder, sequences))
        found = torch.cat(logits_of(half, sequences))
        peer = torch.cat(expected_of(half_model, sequences)).float()
    assert found.dtype == torch.float32
    assert float((found - exact).std()) < 1.5 * float((peer - exact).std())


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_learnt_is_differentiated_as_transformers_does(family: str) -> None:
    """The gradient of the loss in the embedded tokens, which went through every layer."""
    (sequence,) = random_sequences([12])
    decoder, model = tiny_decoder(family), tiny_decoder_model(family)
    packed = PackedSequences((12,))
    positions = torch.from_numpy(packed.positions)
    bottom = decoder.embed(sequence, positions).requires_grad_()
    top = decoder.run_layers(bottom, positions, DenseAttention(packed))
    loss = torch.nn.functional.cross_entropy(decoder.logits(top)[:-1], sequence[1:])
    (found,) = torch.autograd.grad(loss, bottom)
    embedded = model.get_input_embeddings()(sequence[None]).detach().requires_grad_()
    (expected,) = torch.autograd.grad(model(inputs_embeds=embedded, labels=sequence[None]).loss, embedded)
    torch.testing.assert_close(found, expected[0], rtol=1e-3, atol=1e-3 * float(expected.std()))


@pytest.mark.parametrize("family", FAMILIES)
def test_layers_in_two_parts_are_the_layers_in_one(family: str) -> None:
    (sequence,) = random_sequences([7])
    decoder = tiny_decoder(family)
    packed = PackedSequences((7,))
    positions, attention = torch.from_numpy(packed.positions), DenseAttention(packed)
    states = decoder.embed(sequence, positions)
    lower = decoder.run_layers(states, positions, attention, layers=range(1))
    upper = decoder.run_layers(lower, positions, attention, layers=range(1, decoder.architecture.layers))
    assert torch.equal(upper, decoder.run_layers(states, positions, attention))
    assert torch.equal(decoder.run_layers(states, positions, attention, layers=range(0)), states)


def test_logits_are_given_of_the_rows_asked_for() -> None:
    (sequence,) = random_sequences([8])
    decoder = tiny_decoder()
    packed = PackedSequences((8,))
    positions, attention = torch.from_numpy(packed.positions), DenseAttention(packed)
    with torch.no_grad():
        everything = decoder.forward(sequence, positions, attention)
        last = decoder.forward(sequence, positions, attention, rows=torch.tensor([7, 2]))
    assert torch.equal(last, everything[[7, 2]])


class Doubled:
    """Deltas that add a projection's own output to itself, in layer 1 alone, and nothing as adapters."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def __call__(self, layer: int, projection: str, inputs: Tensor, outputs: Tensor) -> Tensor:
        self.seen.add(projection)
        return outputs.mul_(2) if layer == 1 and not is_adapter(projection) else outputs


@pytest.mark.parametrize("family", FAMILIES)
def test_deltas_change_every_projection(family: str) -> None:
    sequences = random_sequences(LENGTHS)
    decoder, deltas = tiny_decoder(family), Doubled()
    doubled = {
        name: value * 2
        for name, value in decoder.weights.items()
        if name.startswith("layers.1.") and name.split(".")[2] in decoder.architecture.projections
    }
    other = Decoder(decoder.architecture, {**decoder.weights, **doubled})
    with torch.no_grad():
        found = torch.cat(logits_of(decoder, sequences, deltas))
        expected = torch.cat(logits_of(other, sequences))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=2e-5 * float(expected.std()))
    assert deltas.seen == set(changed_maps(decoder.architecture))
