"""The number format of an answer: fixed by root and processor when a worker starts, and named."""

import pytest
import torch

from inference.hplm.int8_scales import supports_int8
from inference.hplm.weight_format import WeightFormat
from tests.integration.conftest import redis
from tests.integration.inference.worker.asking import request_for
from tests.integration.inference.worker.conftest import built, desk, world
from tests.integration.inference.worker.desk import Desk
from tests.unit.inference.serving.test_int8_weights import catalogue, plain
from tests.unit.inference.serving.test_int8_weights import world as scaled
from tests.unit.tiny import tiny_texts
from tests.unit.tiny_world import TinyWorld

__all__ = ["built", "desk", "plain", "redis", "scaled", "world"]

EPYC = {"avx2": True, "avx512_vnni": True, "avx512_bf16": True}
XEON = EPYC | {"amx_bf16": True, "amx_int8": True}
OLDER = {"avx2": True, "avx512_vnni": True}


@pytest.fixture
def processor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine has one that can do what the parameter says."""
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: request.param)
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: True)


@pytest.mark.skipif(not supports_int8(torch.device("cpu")), reason="this CPU has no kernels for int8 weights")
@pytest.mark.parametrize(
    ("processor", "weights", "expected"),
    [
        (EPYC, WeightFormat.AUTO, "float32"),
        (XEON, WeightFormat.AUTO, "float32"),
        (OLDER, WeightFormat.AUTO, "int8+float32"),
        (EPYC, WeightFormat.INT8, "int8+float32"),
        (OLDER, WeightFormat.FLOAT, "float32"),
    ],
    indirect=["processor"],
)
def test_auto_is_float_wherever_bfloat16_is_native(
    scaled: TinyWorld, processor: None, weights: WeightFormat, expected: str
) -> None:
    [executor] = catalogue(scaled, weights).executors.values()
    assert executor.root.number_format == expected


def test_a_reply_names_the_number_format_which_is_the_same_alone_and_in_company(
    desk: Desk, world: TinyWorld
) -> None:
    requests = [request_for(hplm, *tiny_texts(8, seed=n)) for n, hplm in enumerate(world.hplms)]
    replies = [*desk.ask(request_for(world.hplms[0], "river")), *desk.ask(*requests)]
    assert len({reply.batch.rows for reply in replies}) > 1
    assert {reply.number_format for reply in replies} == {"float32"}
