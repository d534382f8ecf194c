"""PETs: what they are, and many of them side by side."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from inference.errors import HplmError
from inference.hplm.pets.batch import LayerPets, SegmentPets, SharedPets
from inference.hplm.pets.low_rank import MERGE_THRESHOLD
from inference.hplm.pets.packed import PackedPet
from inference.hplm.pets.spec import PLACES, PetSpec, UpperShape
from inference.hplm.pets.weights import PetWeights

SHAPE = UpperShape(layers=2, hidden=6, inner=10)
specs = st.builds(
    PetSpec,
    adapter=st.integers(0, 5),
    output_adapter=st.integers(0, 5),
    lora=st.integers(0, 4),
    lora_places=st.sets(st.sampled_from(PLACES)).map(lambda places: tuple(p for p in PLACES if p in places)),
    biases=st.booleans(),
    norms=st.booleans(),
    mask=st.sampled_from([0.0, 0.2]),
    diff=st.sampled_from([0.0, 0.1]),
)


def learnt(spec: PetSpec, seed: int = 0) -> PetWeights:
    """A PET after some training: nothing of it is zero."""
    generator = torch.Generator().manual_seed(seed)
    fresh = PetWeights.initial(spec, SHAPE, generator=generator)
    moved = {
        name: value + 0.3 * torch.randn(value.shape, generator=generator)
        for name, value in fresh.weights.items()
    }
    return PetWeights(spec, SHAPE, moved)


class Layer(nn.Module):
    """Everything of a layer that a PET can change, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.maps = nn.ModuleDict({place: nn.Linear(*SHAPE.sizes(place)) for place in PLACES})
        self.norm = nn.LayerNorm(SHAPE.hidden)

    def forward(self, hidden: Tensor, pets: LayerPets) -> Tensor:
        for place in ("query", "key", "value", "output"):
            hidden = pets.linear(place, self.maps[place], hidden)  # type: ignore[arg-type]
        hidden = pets.adapt("adapter", pets.norm("attention", self.norm, hidden))
        hidden = pets.linear("expand", self.maps["expand"], hidden)  # type: ignore[arg-type]
        hidden = pets.linear("contract", self.maps["contract"], hidden)  # type: ignore[arg-type]
        return pets.adapt("output_adapter", pets.norm("output", self.norm, hidden))


def packed(pet: PetWeights) -> PackedPet:
    return PackedPet.of(pet, torch.float32)


def by_definition(layer: Layer, hidden: Tensor, pet: PetWeights, index: int) -> Tensor:
    """The same with the changed weights written out: W + BA, b + db, and equation 1 of the paper."""
    w = {name: value[index] for name, value in pet.weights.items()}

    def linear(place: str, states: Tensor) -> Tensor:
        module: Any = layer.maps[place]
        weight, bias = module.weight, module.bias
        if f"mask.{place}" in w:
            scores = w[f"mask.{place}"].flatten()
            weight = weight.clone().flatten()
            weight[scores.argsort()[: round(0.2 * len(scores))]] = 0
            weight = weight.view_as(module.weight)
        if f"diff.{place}" in w:
            changes = w[f"diff.{place}"].clone().flatten()
            changes[changes.abs().argsort()[: -round(0.1 * len(changes))]] = 0
            weight = weight + changes.view_as(weight)
        if f"lora.{place}.a" in w:
            weight = weight + w[f"lora.{place}.b"] @ w[f"lora.{place}.a"]
        result: Tensor = states @ weight.T + bias + w.get(f"bias.{place}", 0)
        return result

    def norm(name: str, states: Tensor) -> Tensor:
        centred = (states - states.mean(-1, keepdim=True)) / (
            states.var(-1, unbiased=False, keepdim=True) + layer.norm.eps
        ).sqrt()
        weight, bias = w.get(f"norm.{name}.weight", 0), w.get(f"norm.{name}.bias", 0)
        return centred * (layer.norm.weight + weight) + layer.norm.bias + bias

    def adapter(part: str, states: Tensor) -> Tensor:
        if f"{part}.down_w" not in w:
            return states
        narrow = (states @ w[f"{part}.down_w"].T + w[f"{part}.down_b"]).relu()
        return narrow @ w[f"{part}.up_w"].T + w[f"{part}.up_b"] + states

    for place in ("query", "key", "value", "output"):
        hidden = linear(place, hidden)
    hidden = adapter("adapter", norm("attention", hidden))
    return adapter("output_adapter", norm("output", linear("contract", linear("expand", hidden))))


@settings(deadline=None, max_examples=40)
@given(
    st.lists(specs, min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40)), min_size=1, max_size=6),
    st.sampled_from([torch.float32, torch.bfloat16]),
)
def test_mixed_batch_of_pets_computes_the_definition_of_each(
    chosen: list[PetSpec], sequences: list[tuple[int, int]], dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    layer = Layer()
    pets = [learnt(spec, seed) for seed, spec in enumerate(chosen)]
    sequences = [(which % len(pets), length) for which, length in sequences]
    states = torch.randn(sum(length for _, length in sequences), SHAPE.hidden)
    serving = copy.deepcopy(layer).to(dtype)
    ready = [PackedPet.of(pet, dtype) for pet in pets]
    segments = SegmentPets.of([ready[which] for which, _ in sequences], [length for _, length in sequences])
    with torch.no_grad():
        for at in range(SHAPE.layers):
            found = serving(states.to(dtype), segments.layer(at)).float()
            lengths = [length for _, length in sequences]
            parts, given_parts = torch.split(found, lengths), torch.split(states, lengths)
            for (which, _), part, own in zip(sequences, parts, given_parts, strict=True):
                expected = by_definition(layer, own, pets[which], at)
                if dtype == torch.float32:
                    torch.testing.assert_close(part, expected, atol=1e-4, rtol=1e-3)
                # Rounding to bf16, which norms magnify, makes 5 % in the worst of 3,000 draws; another
                # segment's PET or tokens make more than all.
                assert (part - expected).norm() <= 0.2 * expected.norm()
                alone = layer(own[None], SharedPets(pets[which].weights, pets[which].spec).layer(at))[0]
                torch.testing.assert_close(alone, expected, atol=1e-4, rtol=1e-3)


@given(specs)
def test_a_pet_does_the_same_in_a_batch_so_large_that_its_updates_are_added_to_the_weights(
    spec: PetSpec,
) -> None:
    torch.manual_seed(0)
    layer, pet = Layer(), learnt(spec)
    states = torch.randn(2, MERGE_THRESHOLD * SHAPE.inner, SHAPE.hidden)
    with torch.no_grad():
        found = layer(states, SharedPets(pet.weights, pet.spec).layer(1))
        for row, own in enumerate(states):
            torch.testing.assert_close(found[row], by_definition(layer, own, pet, 1), atol=1e-4, rtol=1e-3)


@given(specs)
def test_a_fresh_pet_changes_nothing(spec: PetSpec) -> None:
    torch.manual_seed(0)
    layer, states = Layer(), torch.randn(2, 3, SHAPE.hidden)
    fresh = PetWeights.initial(replace(spec, mask=0.0), SHAPE)  # a mask hides weights from the beginning
    with torch.no_grad():
        plain = layer(states, SharedPets({}, PetSpec()).layer(0))
        assert torch.allclose(layer(states, SharedPets(fresh.weights, fresh.spec).layer(0)), plain, atol=1e-6)


def test_gradients_reach_every_part_of_a_pet_that_is_being_trained() -> None:
    torch.manual_seed(0)
    pet = learnt(PetSpec(adapter=3, output_adapter=2, lora=2, biases=True, norms=True, mask=0.2, diff=0.1))
    weights = {name: value.requires_grad_(True) for name, value in pet.weights.items()}
    layer, states, pets = Layer(), torch.randn(4, 3, SHAPE.hidden), SharedPets(weights, pet.spec)
    layer(layer(states, pets.layer(0)), pets.layer(1)).square().sum().backward()
    assert all(value.grad is not None and value.grad.abs().sum() > 0 for value in weights.values())


def test_a_row_whose_pet_lacks_a_part_is_left_as_it_was_bit_by_bit() -> None:
    torch.manual_seed(0)
    layer, states = Layer(), torch.randn(9, SHAPE.hidden)
    spoilt = learnt(PetSpec(adapter=3, lora=2, biases=True, norms=True))
    for value in spoilt.weights.values():
        value.fill_(torch.nan)
    empty, full = packed(learnt(PetSpec())), packed(spoilt)
    segments = SegmentPets.of([empty, full, empty], [3, 3, 3])
    with torch.no_grad():
        found, plain = layer(states, segments.layer(1)), layer(states, SharedPets({}, PetSpec()).layer(1))
    assert torch.equal(found[[0, 1, 2, 6, 7, 8]], plain[[0, 1, 2, 6, 7, 8]])
    assert found[3:6].isnan().all()


@given(specs)
def test_stored_pet_is_read_back_unchanged(spec: PetSpec) -> None:
    pet = learnt(spec)
    shape = {"layers": SHAPE.layers, "hidden": SHAPE.hidden, "inner": SHAPE.inner}
    again = PetWeights.from_stored(pet.spec.to_json(), shape, pet.stored(torch.float32))
    assert again.spec == spec
    assert again.weights.keys() == pet.weights.keys()
    for name, value in pet.weights.items():
        sparse = name.startswith(("mask", "diff"))  # of which the entries that count are stored
        assert again.weights[name].shape == value.shape
        assert sparse or torch.equal(again.weights[name], value)
    assert again.bytes == pet.bytes == packed(pet).rows.nbytes
    assert torch.equal(packed(again).rows, packed(pet).rows)


SPARSE = PetSpec(mask=0.2, diff=0.02)


def store(change: Callable[[dict[str, Tensor]], None]) -> None:
    """Read a stored PET with sparse tensors that `change` has spoilt."""
    stored = learnt(SPARSE).stored(torch.float16)
    change(stored)
    shape = {"layers": SHAPE.layers, "hidden": SHAPE.hidden, "inner": SHAPE.inner}
    PetWeights.from_stored(SPARSE.to_json(), shape, stored)


@pytest.mark.parametrize(
    ("name", "spoil", "says"),
    [
        ("mask.query", lambda bits: bits[:, 1:], "has shape"),
        ("mask.query", lambda bits: bits.int(), "has type torch.int32"),
        ("mask.query", torch.zeros_like, "has 0 bits in layer 0, not 7"),
        ("mask.query", lambda bits: bits | 255, "beyond its 36 weights"),
        ("diff.expand", lambda at: at + 60, "not between 0 and 59"),
        ("diff.expand", lambda at: at - 60, "not between 0 and 59"),
        ("diff.contract", lambda at: at[:, :0], "has shape"),
        ("diff.contract", lambda at: at.long(), "has type torch.int64"),
    ],
)
def test_positions_that_do_not_fit_are_refused_by_name(
    name: str, spoil: Callable[[Tensor], Tensor], says: str
) -> None:
    def change(stored: dict[str, Tensor]) -> None:
        stored[f"{name}.positions"] = spoil(stored[f"{name}.positions"])

    with pytest.raises(HplmError, match=f"{name}.positions.*{says}") as refused:
        store(change)
    assert refused.value.code == "corrupt_artifact"


def test_changes_out_of_order_and_shares_that_are_no_shares_are_refused() -> None:
    spec, shape = PetSpec(diff=0.02), {"layers": 1, "hidden": 40, "inner": 80}
    stored = PetWeights.initial(spec, UpperShape(**shape)).stored(torch.float16)
    PetWeights.from_stored(spec.to_json(), shape, stored)
    stored["diff.query.positions"] = stored["diff.query.positions"].flip(1)
    with pytest.raises(HplmError, match="ascending order"):
        PetWeights.from_stored(spec.to_json(), shape, stored)
    for share in (-0.1, 0.9, float("nan"), 1, "0.1"):
        with pytest.raises(HplmError, match="diff is"):
            PetWeights.from_stored({**spec.to_json(), "diff": share}, shape, stored)
    with pytest.raises(HplmError, match=r"between 0 and 0\.5"):
        PetSpec(mask=0.6)


def test_weights_that_contradict_the_parts_are_refused() -> None:
    pet = learnt(PetSpec(adapter=3, lora=2))
    for name in pet.weights:
        with pytest.raises(HplmError, match=name.replace(".", r"\.")):
            PetWeights(pet.spec, SHAPE, {k: v for k, v in pet.weights.items() if k != name})
        with pytest.raises(HplmError, match=name.replace(".", r"\.")):
            PetWeights(pet.spec, SHAPE, {**pet.weights, name: torch.zeros(1, 1, 1)})
    with pytest.raises(HplmError, match="bias"):
        PetWeights(pet.spec, SHAPE, {**pet.weights, "bias.query": torch.zeros(2, 6)})


def test_lora_at_an_unknown_place_is_refused() -> None:
    with pytest.raises(HplmError, match="head"):
        PetSpec(lora=2, lora_places=("query", "head"))


class ProductSizes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes how many rows the matrix products have that are computed meanwhile."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.rows = set[int]()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm):
            left = args[0] if func.overloadpacket is torch.ops.aten.mm else args[1]
            self.rows.add(len(left))
        return func(*args, **(kwargs or {}))


def test_a_pet_of_a_whole_batch_has_products_of_few_sizes_in_half_precision() -> None:
    pet = PackedPet.of(learnt(PetSpec(adapter=4, lora=4, lora_places=PLACES)), torch.bfloat16)
    layer = Layer().to(torch.bfloat16)
    lengths = range(40, 1500, 7)
    with torch.no_grad(), ProductSizes() as sizes:
        for tokens in lengths:
            states = torch.randn(tokens, SHAPE.hidden, dtype=torch.bfloat16)
            layer(states, SegmentPets.of([pet], [tokens]).layer(1))
    assert len(sizes.rows) < len(lengths) / 5, "each size is a compiled kernel, which stays in memory"
