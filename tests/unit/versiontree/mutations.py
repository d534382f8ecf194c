"""Random harm to an archive: to its bytes, to the names in it, to its members, to what its JSON says."""

import json
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from typing import Any

from hypothesis import strategies as st

from tests.unit.versiontree.forging import Members, resealed, symlink, zip_of, zip_with

Mutation = Callable[[Members], bytes]
NAMES = (
    "../evil",
    "/evil",
    "evil",
    "a/../../evil",
    "README.md",
    "readme.md",
    "artifacts",
    "",
    ".",
    "x" * 600,
    "é\\",
)
ODD: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.just(10**400),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.just([]),
    st.just({}),
    st.just([1]),
    st.just(["trigram"]),
    st.just({"a": 1}),
    st.just({"trigram": "x"}),
    st.sampled_from(["root", "domain", "hplm", "0" * 64, 1, 2, 10**9]),
)


@st.composite
def bytes_changed(draw: st.DrawFn) -> Mutation:
    """Some bytes are others, gone, or more."""
    edits = draw(
        st.lists(
            st.tuples(st.floats(0, 1), st.sampled_from(["set", "cut", "add", "end"]), st.binary(max_size=8)),
            min_size=1,
            max_size=4,
        )
    )
    compressed = draw(st.booleans())

    def mutate(members: Members) -> bytes:
        content = bytearray(zip_of(members, compressed=compressed))
        for where, how, new in edits:
            at = int(where * len(content))
            if how == "set":
                content[at : at + len(new)] = new
            elif how == "cut":
                del content[at : at + len(new)]
            elif how == "add":
                content[at:at] = new
            else:
                del content[at:]
        return bytes(content)

    return mutate


@st.composite
def names_changed(draw: st.DrawFn) -> Mutation:
    """A member is called otherwise, is gone, is there under another name as well, or is a link."""
    which, new = draw(st.integers(0, 50)), draw(st.sampled_from(NAMES) | st.text(max_size=12))
    how = draw(st.sampled_from(["rename", "drop", "copy", "link", "swap"]))

    def mutate(members: Members) -> bytes:
        names = list(members)
        old, other = names[which % len(names)], names[(which + 1) % len(names)]
        content = members[old]
        rest = {name: body for name, body in members.items() if name != old}
        try:
            if how == "copy":
                return zip_with(members, (zipfile.ZipInfo(new), content))
            if how == "link":
                return zip_with(rest, symlink(old, f"/tmp/{new}"))
            changes = {"rename": {new: content}, "drop": {}, "swap": {old: members[other]}}[how]
            return zip_of({**rest, **changes})
        except (ValueError, UnicodeError):  # zip files have no such names
            return b""

    return mutate


@st.composite
def content_changed(draw: st.DrawFn) -> Mutation:
    """A member has other bytes, and the zip file is sound."""
    which, where, new = draw(st.integers(0, 50)), draw(st.floats(0, 1)), draw(st.binary(max_size=6))
    keep = draw(st.booleans())

    def mutate(members: Members) -> bytes:
        name = list(members)[which % len(members)]
        content = bytearray(members[name])
        at = int(where * len(content))
        content[at : at + (len(new) if keep else 0)] = new
        return zip_of({**members, name: bytes(content)})

    return mutate


def json_changed(name: str = "manifest.json") -> st.SearchStrategy[Mutation]:
    """Some value in the manifest, or in a file that it then names as it is, is another or is gone."""
    return st.builds(partial(_json_changed, name), st.integers(0, 5000), ODD, st.booleans())


def _json_changed(name: str, which: int, odd: Any, drop: bool) -> Mutation:
    def mutate(members: Members) -> bytes:
        content = json.loads(members[name])
        places = list(_places(content))
        inside, key = places[which % len(places)]
        if drop:
            del inside[key]
        else:
            inside[key] = odd
        changed = {**members, name: json.dumps(content).encode()}
        return zip_of(changed if name == "manifest.json" else resealed(changed))

    return mutate


def _places(content: Any) -> Iterator[tuple[Any, Any]]:
    """Every value within, as what holds it and its key there."""
    keys = content if isinstance(content, dict) else range(len(content)) if isinstance(content, list) else ()
    for key in keys:
        yield content, key
        yield from _places(content[key])


@st.composite
def directory_changed(draw: st.DrawFn) -> Mutation:
    """A field of an entry in the directory of the zip file is another."""
    which, field = draw(st.integers(0, 50)), draw(st.sampled_from([8, 10, 16, 20, 24, 28, 30, 38, 42]))
    new = draw(st.binary(min_size=2, max_size=4))

    def mutate(members: Members) -> bytes:
        content = bytearray(zip_of(members))
        with zipfile.ZipFile(BytesIO(bytes(content))) as archive:
            at, names = archive.start_dir, archive.namelist()
        for name in names[: which % len(names)]:
            at += 46 + len(name.encode())
        content[at + field : at + field + len(new)] = new
        return bytes(content)

    return mutate


mutations: st.SearchStrategy[Mutation] = st.one_of(
    bytes_changed(),
    names_changed(),
    content_changed(),
    json_changed(),
    json_changed("config.json"),
    directory_changed(),
)
