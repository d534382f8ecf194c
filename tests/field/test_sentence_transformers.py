"""Folders that sentence-transformers saved: their embeddings are those of the library."""

from base64 import b64decode
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling

from inference.cascade.dispatcher import Level
from inference.hplm.hplm import Hplm
from inference.hplm.pets.spec import UpperShape
from inference.hplm.root import Root
from inference.text.codec import EMBEDDING, TextCodec
from inference.text.encodings import InferInput
from inference.text.outputs import Outputs
from inference.text.sentence_config import SentenceConfig
from tests.unit.inference.engine.worlds import EngineWorld, answered
from tests.unit.tiny import HIDDEN, MAX_TOKENS, WORDS, tiny_hplms

GAP = 1e-5
PROMPTS = {"query": "read the question : ", "document": ""}
LIMIT = 40
TEXTS = ["stone", " ".join(WORDS[:7]), " ".join(WORDS[:LIMIT]), "max_tokens don't ! 42 zebra", "good " * 100]
POOLINGS = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
GELU, SIGMOID = torch.nn.GELU(), torch.nn.Sigmoid()


def models_for(root: Root) -> list[Hplm]:
    """One that only gives embeddings, and fine-tuned ones to share batches with."""
    config = root.config
    shape = UpperShape(config.upper, config.hidden, config.architecture.inner)
    return [Hplm.of_embeddings(shape), *tiny_hplms(root, 2)]


def embeddings(world: EngineWorld, texts: Sequence[str], prompt: str | None) -> NDArray[np.float32]:
    """Of the model that only gives them, read at the edge and computed in a batch with texts of others."""
    folder = world.tiny.folder("root", world.tiny.root_digest)
    config = SentenceConfig.of_root(folder)
    codec = TextCodec(config.tokenizer(Root.load(folder).tokenizer), None)
    encoded = codec.encode([InferInput(config.prompt(prompt) + text) for text in texts])
    rows = []
    for number, one in enumerate(encoded):
        row = replace(world.row(0, texts[number], Level.FULL), embed=True)
        other = world.row(1 + number % 2, "a text of another model", Level(1 + number % 2))
        rows += [replace(row, ids=one.encodings[0].ids, types=one.encodings[0].types), other]
    found = [answer.embedding for answer in answered(world.executor(), *rows)[::2]]
    results = codec.results(encoded, [Outputs(vector) for vector in found if vector is not None])
    return np.stack([np.frombuffer(b64decode(result[EMBEDDING]), "<f4") for result in results])


@pytest.mark.parametrize(
    ("pooling", "modules", "settings"),
    [
        *((mode, [Normalize()], {}) for mode in POOLINGS),
        ("mean", [], {"max_seq_length": LIMIT}),
        (("max", "cls"), [Dense(2 * HIDDEN, 24), Normalize()], {"max_seq_length": LIMIT}),
        (POOLINGS, [Dense(6 * HIDDEN, 48, bias=False, activation_function=GELU)], {}),
        ("cls", [Dense(HIDDEN, 8, activation_function=None), Normalize(), Dense(8, 9, False, SIGMOID)], {}),
    ],
    ids=str,
)
def test_embeddings_equal_those_of_sentence_transformers(
    tmp_path: Path, pooling: Any, modules: list[Any], settings: dict[str, int]
) -> None:
    """Of every pooling, alone and put together, with dense layers and norms; with and without prompts; of
    one word up to more than is read."""
    saved: list[SentenceTransformer] = []

    def save(folder: Path) -> None:
        transformer = Transformer(str(folder), **settings)
        parts = [transformer, Pooling(HIDDEN, pooling), *modules]
        saved.append(SentenceTransformer(modules=parts, prompts=PROMPTS, device="cpu"))
        saved[0].save_pretrained(str(folder))

    world = EngineWorld(tmp_path, models_for, add_files=save, max_tokens=MAX_TOKENS)
    for prompt in (None, "query", "document"):
        expected = saved[0].encode(TEXTS, prompt_name=prompt, convert_to_numpy=True)
        found = embeddings(world, TEXTS, prompt)
        assert found.shape == expected.shape
        assert np.abs(found - expected).max() < GAP, prompt
