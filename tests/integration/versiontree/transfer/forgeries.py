"""Archives that were made to do harm, from a sound one of a model."""

import io
import struct
import zipfile
from collections.abc import Callable
from typing import Any

from tests.unit.versiontree.forging import (
    Members,
    beside,
    entry,
    resealed,
    told,
    with_part,
    zip_of,
    zip_with,
)
from versiontree.transfer.archive.layout import MAX_TEXT_BYTES

Forge = Callable[[Members], bytes]
WEIGHTS = "hplm.safetensors"


def extra(name: str) -> Forge:
    """A file more, which the manifest names as well."""
    return lambda members: zip_of(resealed({**members, name: b"x"}))


def twice(name: str) -> Forge:
    return lambda members: zip_with(members, (zipfile.ZipInfo(name), members["README.md"]))


def bomb(*, tells: bool) -> Forge:
    """The directory says ten bytes of what unpacks to a hundred million; the manifest `tells` the same."""

    def forge(members: Members) -> bytes:
        card = b"\0" * 10 if tells else members["README.md"]
        manifested = resealed({**members, "README.md": card})
        archive = bytearray(zip_of({**manifested, "README.md": b"\0" * 100_000_000}, compressed=True))
        with zipfile.ZipFile(io.BytesIO(bytes(archive))) as opened:
            header = opened.getinfo("README.md").header_offset
        struct.pack_into("<I", archive, header + 22, 10)
        struct.pack_into("<I", archive, archive.rindex(b"README.md") - 46 + 24, 10)
        return bytes(archive)

    return forge


def say(**changes: object) -> Forge:
    """The manifest says other things."""
    return lambda members: zip_of(told(members, lambda manifest: manifest.update(changes)))


def configured(place: int = 0, /, **changes: object) -> Forge:
    """The config of the version at that place says other things, and the manifest names it as it is."""
    return _made_otherwise(place, lambda node: node["config"].update(changes))


def measured(kind: str, place: int = 0, /, **changes: object) -> Forge:
    """As ``configured``, of the metrics of a job."""
    return _made_otherwise(place, lambda node: node["metrics"].setdefault(kind, {}).update(changes))


def _made_otherwise(place: int, change: Callable[[Any], None]) -> Forge:
    def forge(members: Members) -> bytes:
        return zip_of(
            told(members, lambda config: change([config, *config["lineage"]][place]), "config.json")
        )

    return forge


def another_under_the_digest(members: Members) -> bytes:
    """The manifest tells the truth of each file, but the artifact keeps the digest that it had."""
    (name,) = (name for name in members if name.endswith(WEIGHTS))
    changed = members[name] + b"x"

    def say(manifest: dict[str, dict[str, object]]) -> None:
        manifest["files"][name] = entry(changed)

    return zip_of(told({**members, name: changed}, say))


def manifested(content: bytes) -> Forge:
    return lambda members: zip_of({**members, "manifest.json": content})


FORGERIES: dict[str, tuple[Forge, str]] = {
    "climbs": (extra("../../evil"), "not a valid file name"),
    "absolute": (extra("/tmp/evil"), "not a valid file name"),
    "drive": (extra("C:evil"), "not a valid file name"),
    "backslash": (extra("..\\evil"), "not a valid file name"),
    "long name": (extra("a" * 300), "not a valid file name"),
    "twice": (twice("README.md"), "occurs twice"),
    "twice in other letters": (twice("readme.md"), "occurs twice"),
    "a file and a folder": (extra("README.md/evil"), "a file and a folder"),
    "no place for it": (extra("evil"), "does not belong in it"),
    "artifact of nobody": (extra(f"artifacts/hplm/{'0' * 64}/hplm.json"), "does not belong in it"),
    "two manifests": (
        lambda members: zip_of({f"{top}/{name}": members[name] for name in members for top in "ab"}),
        "exactly one manifest.json",
    ),
    "bomb": (bomb(tells=True), "README.md"),
    "bomb that nobody tells of": (bomb(tells=False), "bytes, not"),
    "directory": (
        lambda members: zip_of({f"{number:0100}": b"" for number in range(40_000)}),
        "directory of the zip file is too long",
    ),
    "many files": (
        lambda members: zip_of({**members, **{f"f{number}": b"" for number in range(5000)}}),
        "more than 4,096",
    ),
    "long manifest": (manifested(b'{"files": "' + b" " * MAX_TEXT_BYTES + b'"}'), "too long"),
    "nested manifest": (manifested(b'{"a":' * 30 + b"1" + b"}" * 30), "nested"),
    "NaN": (manifested(b'{"type": NaN}'), "not a JSON number"),
    "NUL": (manifested(b'{"type": "\\u0000"}'), "NUL"),
    "other format": (say(format=99), "format 99"),
    "other thing": (say(type="else"), "not an archive of a version"),
    "no name": (say(name="../evil"), "not a name"),
    "no task": (say(task="mischief"), "is not valid for"),
    "license of two lines": (say(license="mit\n## evil"), "short text"),
    "long license": (say(license="x" * 101), "short text"),
    "digest of another": (say(digest="0" * 64), "main artifact"),
    "digests of another": (say(digests={"hplm": "0" * 64}), "main artifact"),
    "roles of another": (say(digests={"hplm": "0" * 64, "root": "0" * 64}), "artifacts it needs"),
    "no lineage": (say(lineage=[]), "different lineages"),
    "branch that is not there": (say(branch=True), "do not have its digest"),
    "a model that compacts": (configured(compacts=[1]), "only domains do"),
    "a root that compacts": (configured(2, compacts=[]), "only domains do"),
    "a domain that compacts itself": (configured(1, compacts=[1]), "not above it"),
    "a domain that compacts a root": (configured(1, compacts=[2]), "not above it"),
    "another artifact": (
        lambda members: zip_of(with_part(members, "hplm.json", b"{}")),
        "cannot be loaded: hplm.json",
    ),
    "weights cut": (
        lambda members: zip_of(
            with_part(members, WEIGHTS, members[next(n for n in members if n.endswith(WEIGHTS))][:-8])
        ),
        "safetensors",
    ),
    "a pickle beside": (
        lambda members: zip_of(beside(members, WEIGHTS, "pytorch_model.bin", b"\x80\x04.")),
        "not part of an artifact",
    ),
    "task of another": (say(task="tagging"), "not trained for"),
    "another under the digest": (another_under_the_digest, "do not have its digest"),
    "settings of a fool": (measured("fine_tune", settings=7), "is invalid"),
    "rows of a fool": (measured("fine_tune", fitted_rows="many", train_rows=7), "is invalid"),
    "value of 400 digits": (measured("evaluate", value=10**399), "too large"),
}
"""How each is made, and what its refusal says."""
