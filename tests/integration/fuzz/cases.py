"""How many cases of each entrance are tried, and what must hold of all of them."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Any, Final

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tenants.base.errors import HmiError

TIMES: Final = float(os.environ.get("HMI_FUZZ_CASES", "0.05"))
"""The cases of a run are so many times those that the entrances say, and the same each time. `make thorough`
tries all of them."""
AT_ONCE: Final = 5
"""Cases drawn together: much of what a draw takes is the same for one and for five."""
LONGEST_MESSAGE: Final = 1000
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "\0", "\ud800", "a" * 300, "acme/triage", "1", "-1", 10**30, 1e308, [], {}])
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=5,
)


@dataclass(frozen=True)
class Entrance:
    """Something that reads what strangers send: what they send, how it is read, and how many cases are
    tried."""

    cases: int
    sent: st.SearchStrategy[Any]
    read: Callable[[Any], object]


def pieces(*known: bytes) -> st.SearchStrategy[bytes]:
    """Bytes that are nearly right: of pieces that mean something, with others between them. One draw makes
    them all, each of its bytes one piece: that is many times faster than a list of draws."""
    alphabet = [known[number % len(known)] if number < 192 else bytes([number]) for number in range(256)]
    return st.binary(max_size=20).map(lambda drawn: b"".join(map(alphabet.__getitem__, drawn)))


def nearly(content: bytes) -> st.SearchStrategy[bytes]:
    """What is right, but for a few bytes somewhere."""

    def harmed(place: int, gone: int, new: bytes) -> bytes:
        at = place % len(content)
        return content[:at] + new + content[at + gone :]

    return st.builds(harmed, st.integers(0, 2**16), st.integers(0, 3), st.binary(max_size=3))


@dataclass
class Tried:
    """How many cases there were, and how many of them were read."""

    cases: int = 0
    read: int = 0


def tried(entrance: Entrance) -> Tried:
    """Has the cases read, each of which must be read or refused."""
    so_far = Tried()

    @settings(
        max_examples=ceil(entrance.cases * TIMES / AT_ONCE),
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.tuples(*[entrance.sent] * AT_ONCE))
    def some(all_sent: tuple[Any, ...]) -> None:
        for sent in all_sent:
            so_far.cases += 1
            so_far.read += not isinstance(read_or_refused(partial(entrance.read, sent)), Exception)

    some()
    return so_far


def check_all_tried(entrance: Entrance) -> None:
    """As many cases as were promised; some came through, so it was the content that decided."""
    found = tried(entrance)
    assert found.cases >= entrance.cases * TIMES
    assert 0 < found.read < found.cases


def read_or_refused(read: Callable[[], object]) -> object:
    """What was read; a refusal is one that whoever sent it can be told: typed, short, and not our fault."""
    try:
        return read()
    except HmiError as error:
        check_refusal(error)
        return error


def check_refusal(error: HmiError) -> None:
    """It can be told as JSON, in a few words."""
    assert 400 <= error.status < 500, error
    assert 0 < len(error.message) <= LONGEST_MESSAGE, error
    json.dumps(error.to_json(), ensure_ascii=False, allow_nan=False).encode()
