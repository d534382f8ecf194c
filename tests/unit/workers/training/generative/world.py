"""A tiny generative root, and rows whose rule it can learn."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.unit.tiny_decoder import EOS, EOS_TOKEN, POSITIONS, byte_tokenizer
from tests.unit.workers.training.world import json_lines
from workers.training.datasets import DatasetFiles
from workers.training.generative.rows import Message
from workers.training.generative.tokenization import GenerativeTokenizer

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def render(messages: Sequence[Message], open_turn: bool) -> str:
    """A chat template that ends each message with the stop token and a new line."""
    text = "".join(f"[{message.role}]{message.content}{EOS_TOKEN}\n" for message in messages)
    return text + ("[assistant]" if open_turn else "")


def tiny_tokenizer(max_tokens: int = POSITIONS) -> GenerativeTokenizer:
    return GenerativeTokenizer(byte_tokenizer(), (EOS,), render, max_tokens)


def prompt_rows(count: int, seed: int) -> list[dict[str, Any]]:
    """Is the last letter in the first half of the alphabet? What is before it only disturbs."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        letter = draw.choice(LETTERS)
        rows.append(
            {"prompt": f"{draw.choice('12')}?{letter}", "completion": "yes" if letter < "n" else "no"}
        )
    return rows


def noise_rows(count: int, seed: int) -> list[dict[str, Any]]:
    """Completions that no prompt foretells."""
    draw = random.Random(seed)
    return [
        {"prompt": f"{number} {seed}", "completion": "".join(draw.choices(LETTERS, k=4))}
        for number in range(count)
    ]


def chat_rows(count: int, seed: int) -> list[dict[str, Any]]:
    """The same questions, asked in conversations."""
    return [
        {
            "messages": [
                {"role": "user", "content": row["prompt"]},
                {"role": "assistant", "content": row["completion"]},
            ]
        }
        for row in prompt_rows(count, seed)
    ]


def dataset(folder: Path, rows: Any = prompt_rows, train: int = 160, other: int = 30) -> DatasetFiles:
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {"train": train, "dev": other, "test": other}
    return DatasetFiles(
        **{
            name: json_lines(folder / f"{name}.jsonl", rows(size, seed))
            for seed, (name, size) in enumerate(sizes.items())
        }
    )
