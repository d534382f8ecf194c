"""A tiny generative root, and rows whose rule it can learn."""

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from inference.text.chat_template import ChatTemplate
from inference.text.detokenizer import Detokenizer
from inference.text.prompts import PromptTokenizer
from tests.unit.tiny_decoder import EOS, EOS_TOKEN, POSITIONS, byte_tokenizer
from tests.unit.workers.training.world import json_lines
from workers.training.datasets import DatasetFiles
from workers.training.generative.tokenization import GenerativeTokenizer

LETTERS = "abcdefghijklmnopqrstuvwxyz"


NOW = datetime(2026, 7, 1, tzinfo=UTC)
TEMPLATE = (
    "{% for message in messages %}"
    f"[{{{{ message.role }}}}]{{{{ message.content }}}}{EOS_TOKEN}\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
"""A chat template that ends each message with the stop token and a new line."""


def tiny_tokenizer(
    max_tokens: int = POSITIONS,
    *,
    template: str = TEMPLATE,
    tokenizer: Tokenizer | None = None,
    stop_ids: tuple[int, ...] = (EOS,),
) -> GenerativeTokenizer:
    """The tokenizer of a root with that chat template; without another one it is that of bytes."""
    tokenizer = tokenizer or byte_tokenizer()
    prompts = PromptTokenizer(tokenizer, ChatTemplate(template))
    return GenerativeTokenizer(prompts, Detokenizer(tokenizer), stop_ids, max_tokens, NOW)


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
