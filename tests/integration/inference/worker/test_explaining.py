"""A request that asks how its tokens were made is told so, and gets the same answer."""

from collections import Counter
from typing import Any

import msgspec

from inference.cascade.dispatcher import Level
from inference.text.encodings import InferInput
from tests.integration.inference.worker.asking import CONTEXT, inputs_for, request_for, results_in
from tests.integration.inference.worker.desk import Desk
from tests.unit.tiny_world import TinyWorld

TEXT = "the zebra of the river, quixotic!"


def without_tokens(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: said for name, said in result.items() if name != "tokens"} for result in results]


def test_every_kind_of_hplm_tells_the_tokens_of_what_it_read(desk: Desk, world: TinyWorld) -> None:
    plain = [request_for(hplm, TEXT, "the river") for hplm in world.hplms]
    asking = [msgspec.structs.replace(one, id=f"{one.id}e", explain=True) for one in plain]
    for hplm, untold, told in zip(world.hplms, desk.ask(*plain), desk.ask(*asking), strict=True):
        inputs = inputs_for(hplm, TEXT, "the river")
        explained, usual = (results_in(hplm, inputs, reply) for reply in (told, untold))
        assert without_tokens(explained) == usual
        second = "context" if hplm.model.task == "question_answering" else "text_pair"
        first = "question" if second == "context" else "text"
        read = {first: TEXT, second: CONTEXT} if hplm.model.pairs else {first: TEXT}
        tokens = explained[0]["tokens"]
        for name, text in read.items():
            shown = [text[token["start"] : token["end"]] for token in tokens if token["of"] == name]
            assert "".join(shown) == text.replace(" ", "")
        assert len(tokens) == sum(token["of"] in read for token in tokens)


def test_the_levels_of_the_tokens_are_those_that_were_counted(desk: Desk, world: TinyWorld) -> None:
    """All but those of the special tokens at both ends."""
    hplm = next(hplm for hplm in world.hplms if not hplm.model.pairs)
    asking = [msgspec.structs.replace(request_for(hplm, TEXT, level=level), explain=True) for level in Level]
    seen: Counter[str] = Counter()
    for reply in desk.ask(*asking):
        [result] = results_in(hplm, [InferInput(TEXT)], reply)
        levels = Counter(token["level"] for token in result["tokens"])
        counted = Counter(msgspec.structs.asdict(reply.plot))
        if result["level"] == "full":
            assert set(levels) == {"computed"}
        else:
            assert sum((counted - levels).values()) == 2
            assert not levels - counted
        seen += levels
    assert len(seen) > 1
