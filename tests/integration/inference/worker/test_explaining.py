"""A request that asks how its tokens were made is told so, and gets the same answer."""

import dataclasses
from collections import Counter

from inference.queueing.messages import InferReply
from tests.integration.inference.worker.asking import CONTEXT, request_for
from tests.integration.inference.worker.desk import Desk
from tests.unit.tiny_world import TinyWorld

TEXT = "the zebra of the river, quixotic!"


def without_tokens(reply: InferReply) -> list[dict[str, object]]:
    return [{name: said for name, said in result.items() if name != "tokens"} for result in reply.results]


def test_every_kind_of_hplm_tells_the_tokens_of_what_it_read(desk: Desk, world: TinyWorld) -> None:
    plain = [request_for(hplm, TEXT, "the river") for hplm in world.hplms]
    asking = [dataclasses.replace(one, id=f"{one.id}e", explain=True) for one in plain]
    for hplm, untold, told in zip(world.hplms, desk.ask(*plain), desk.ask(*asking), strict=True):
        assert without_tokens(told) == list(untold.results)
        assert all("tokens" not in result for result in untold.results)
        second = "context" if hplm.model.task == "question_answering" else "text_pair"
        first = "question" if second == "context" else "text"
        read = {first: TEXT, second: CONTEXT} if hplm.model.pairs else {first: TEXT}
        tokens = told.results[0]["tokens"]
        for name, text in read.items():
            shown = [text[token["start"] : token["end"]] for token in tokens if token["of"] == name]
            assert "".join(shown) == text.replace(" ", "")
        assert len(tokens) == sum(token["of"] in read for token in tokens)


def test_the_levels_of_the_tokens_are_those_that_were_counted(desk: Desk, world: TinyWorld) -> None:
    """All but those of the special tokens at both ends."""
    hplm = next(hplm for hplm in world.hplms if not hplm.model.pairs)
    asking = [
        dataclasses.replace(request_for(hplm, TEXT, miss_policy=policy), explain=True)
        for policy in ("fallback", "compute")
    ]
    seen: Counter[str] = Counter()
    for reply in desk.ask(*asking):
        levels = Counter(token["level"] for token in reply.results[0]["tokens"])
        counted = Counter(dataclasses.asdict(reply.plot))
        if reply.plot.whole_rows:
            assert set(levels) == {"computed"}
        else:
            assert sum((counted - levels).values()) == 2
            assert not levels - counted
        seen += levels
    assert len(seen) > 1
