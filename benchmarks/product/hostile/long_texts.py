"""Attacks by texts that take long to read: prompts, words without an end, uploads read over and over."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from benchmarks.product.hostile.bodies import MIB, repeated
from benchmarks.product.hostile.connections import JSON
from benchmarks.product.hostile.target import Target

DIGITS: Final = 1_000_000
LONGEST, SEVERAL = 2 * MIB, 7
"""Characters of the longest text that a request may have, and how many of them fit into one body."""
LARGE_AT_ONCE, SMALL_AT_ONCE = 2, 4


def long_prompts(target: Target, until: float) -> Counter[str]:
    """Chats of a million digits and of 2 MiB, and seven prompts of 2 MiB in one body."""
    writer = target.writing()
    model = f"{writer.tenant}/{writer.hplm}"
    bodies = [
        ("/v1/chat/completions", _chat(model, "7" * DIGITS)),
        ("/v1/chat/completions", _chat(model, "a" * LONGEST)),
        ("/v1/completions", {"model": model, "prompt": ["7" * LONGEST] * SEVERAL}),
        ("/v1/chat/completions", _chat(model, f"{target.words} " * (LONGEST // (len(target.words) + 1)))),
        ("/v1/completions", {"model": model, "prompt": ["-" * LONGEST] * SEVERAL}),
    ]
    return _posted(writer, until, bodies)


def long_words(target: Target, until: float) -> Counter[str]:
    """Seven words of 2 MiB in one body, for a model that reads long texts in windows."""
    model = f"{target.tenant}/{target.hplm}"
    words = ["a" * LONGEST] * SEVERAL
    tensor = {"name": "TEXT", "shape": [SEVERAL], "datatype": "BYTES", "data": words}
    bodies: list[tuple[str, Any]] = [
        ("/api/v1/infer", {"model": model, "inputs": words}),
        ("/v1/embeddings", {"model": model, "input": words}),
        (f"/v2/models/{target.hplm}/infer", {"inputs": [tensor]}),
        ("/api/v1/infer", {"model": model, "inputs": ["7," * MIB] * SEVERAL}),
    ]
    return _posted(target, until, bodies)


def tokenizer_fits(target: Target, until: float) -> Counter[str]:
    """How a root's tokenizer reads a long dataset, and what a model of it would take, again and again."""
    wanted = {"name": f"{target.mark}-fit", "parent": target.parent_version, "dataset": target.dataset_id}
    with target.http() as http:

        def send(number: int) -> str:
            if number % 2:
                return str(http.post("/api/v1/estimate", json=wanted).status_code)
            path = f"/api/v1/datasets/{target.dataset_id}/fit"
            return str(http.get(path, params={"root": target.root}).status_code)

        return repeated(send, until, SMALL_AT_ONCE)


def long_lines(target: Target, until: float) -> Counter[str]:
    """Files to check whose lines take long to compare: combining marks in a row, signs that become eighteen
    characters, one word over and over, and a body of long numbers."""
    lines = ["a" + "\u0301\u0323" * MIB, "\ufdfa" * (LONGEST // 3), "a " * MIB]
    numbers = b"[" + b",".join([b"0." + b"1" * 4_200] * 3_000) + b"]"
    with target.http() as http:

        def send(number: int) -> str:
            which = number % (len(lines) + 1)
            if which == len(lines):
                headers = {"Content-Type": JSON}
                return str(http.post("/api/v1/infer", content=numbers, headers=headers).status_code)
            file = {"file": ("corpus.txt", lines[which].encode(), "text/plain")}
            return str(http.post("/api/v1/corpora/preview", files=file).status_code)

        return repeated(send, until, LARGE_AT_ONCE)


def _chat(model: str, text: str) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": text}]}


def _posted(target: Target, until: float, bodies: Sequence[tuple[str, Any]]) -> Counter[str]:
    written = [(path, json.dumps(body).encode()) for path, body in bodies]
    with target.http() as http:

        def send(number: int) -> str:
            path, body = written[number % len(written)]
            return str(http.post(path, content=body, headers={"Content-Type": JSON}).status_code)

        return repeated(send, until, LARGE_AT_ONCE)
