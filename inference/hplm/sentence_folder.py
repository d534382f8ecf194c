"""Reads what a folder of sentence-transformers adds to a checkpoint: `modules.json` and the files it names.

No code is taken from a folder: modules are known by the names of their classes, and all others are refused.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch

from inference.errors import HplmError
from inference.hplm.artifact_files import read_json, read_json_value, read_weights, to_float32
from inference.hplm.checkpoint import weight_files
from inference.hplm.sentence_modules import ACTIVATIONS, Dense, SentenceModules
from inference.text.sentence_config import NORMALIZE, SentenceConfig
from inference.text.tokenization import MIN_TOKENS

MODULES_FILE: Final = "modules.json"
PROMPTS_FILE: Final = "config_sentence_transformers.json"
TRANSFORMER_FILES: Final = "sentence_*_config.json"
TOKENIZER_CONFIG: Final = "tokenizer_config.json"
CONFIG_FILE: Final = "config.json"
SENTENCE_MODEL: Final = "SentenceTransformer"
MAX_FOLDER_MODULES: Final = 10
FLAGS: Final = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""Of older folders, in the order of the vectors."""
_CODE: Final = "unsupported_checkpoint"
_BETWEEN_VECTORS: Final = {
    "module_input_name": ("sentence_embedding",),
    "module_output_name": ("sentence_embedding", None),
}
_TRANSFORMER: Final = {
    "transformer_task": ("feature-extraction",),
    "module_output_name": ("token_embeddings",),
    "modality_config": ({"text": {"method": "forward", "method_output_name": "last_hidden_state"}},),
    "processing_kwargs": ({}, None),
    "query_expansion": (False, None),
}
"""By setting: the values that are supported. One that is absent has the first."""


def read_sentence_modules(
    folder: Path, *, hidden: int, max_tokens: int, lower_case: bool
) -> SentenceModules | None:
    """What makes the embeddings of the checkpoint in a folder; None if it has no `modules.json`, or is no
    model of embeddings. hidden: of the checkpoint. max_tokens: of the longest text. lower_case: whether the
    tokenizer writes lower case.

    Raises HplmError: unsupported_checkpoint (another module, or settings of one that are not supported; the
    message names it), pickled_checkpoint (a dense layer's weights).
    """
    if not (folder / MODULES_FILE).is_file():
        return None
    about = _optional(folder / PROMPTS_FILE)
    if about.get("model_type", SENTENCE_MODEL) != SENTENCE_MODEL:
        return None
    _, (_, pooling), *others = _modules(folder)
    dense: list[Dense] = []
    names: list[str] = []
    for kind, path in others:
        if kind == "Dense":
            activation, layer = _dense(path)
            names.append(activation)
            dense.append(layer)
        else:
            _check(path, _optional(path / CONFIG_FILE), _BETWEEN_VECTORS)
            names.append(NORMALIZE)
    section = {
        "pooling": _pooling(pooling, hidden),
        "modules": names,
        "prompts": about.get("prompts") or {},
        "default_prompt": about.get("default_prompt_name"),
        "max_tokens": _max_tokens(folder, max_tokens, lower_case=lower_case),
    }
    config = SentenceConfig.from_json(section, "unsupported_checkpoint")
    try:
        return SentenceModules(config, hidden, tuple(dense))
    except HplmError as error:
        raise _unsupported(MODULES_FILE, error.message) from error


def _modules(folder: Path) -> list[tuple[str, Path]]:
    """The class name and the folder of each module: a transformer, a pooling, then dense layers and norms."""
    listed = read_json_value(folder / MODULES_FILE, missing=_CODE, damaged=_CODE)
    if not isinstance(listed, list) or not 2 <= len(listed) <= MAX_FOLDER_MODULES:
        raise _unsupported(MODULES_FILE, f"it is not a list of 2 to {MAX_FOLDER_MODULES} modules")
    found = []
    for number, module in enumerate(listed):
        kind, path = (module.get("type"), module.get("path")) if isinstance(module, dict) else (None, None)
        library, _, name = str(kind).rpartition(".")
        expected = (
            ("Transformer",) if number == 0 else ("Pooling",) if number == 1 else ("Dense", "Normalize")
        )
        if library.partition(".")[0] != "sentence_transformers" or name not in expected:
            wanted = " or ".join(expected)
            raise _unsupported(
                MODULES_FILE, f"module {number} is {str(kind)[:100]!r}; only {wanted} is supported there"
            )
        if not re.fullmatch(r"\w[\w.-]*" if number else "", str(path)):
            raise _unsupported(MODULES_FILE, f"module {number} lies in {str(path)[:100]!r}, not in its place")
        found.append((name, folder / str(path)))
    return found


def _pooling(path: Path, hidden: int) -> list[object]:
    config = _read(path / CONFIG_FILE)
    _check(path, config, {"include_prompt": (True,)})
    width = config.get("embedding_dimension", config.get("word_embedding_dimension"))
    if width != hidden:
        raise _unsupported(path.name, f"it pools states of {width} numbers; the checkpoint's have {hidden}")
    chosen = config.get("pooling_mode")
    if chosen is None:
        chosen = [mode for flag, mode in FLAGS.items() if config.get(flag)] or "mean"
    return chosen if isinstance(chosen, list) else [chosen]


def _dense(path: Path) -> tuple[str, Dense]:
    """A dense layer, and the name of its activation."""
    config = _read(path / CONFIG_FILE)
    _check(path, config, {"use_residual": (False,), **_BETWEEN_VECTORS})
    name = config.get("activation_function", "torch.nn.modules.activation.Tanh")
    library, _, activation = str(name).rpartition(".")
    if library.partition(".")[0] != "torch" or activation.lower() not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise _unsupported(path.name, f"the activation is {str(name)[:100]!r}; those of torch are: {known}")
    try:
        weights: dict[str, torch.Tensor] = {}
        for file in weight_files(path) if path.is_dir() else ():
            weights |= to_float32(read_weights(file, missing=_CODE, damaged=_CODE))
    except HplmError as error:
        raise HplmError(error.code, f"{path.name}: {error.message}") from error
    weight, bias = weights.pop("linear.weight", None), weights.pop("linear.bias", None)
    if weight is None or weight.dim() != 2 or weights or (bias is None) is bool(config.get("bias", True)):
        raise _unsupported(path.name, "it has other tensors than linear.weight [out, in] and linear.bias")
    sizes = config.get("out_features"), config.get("in_features")
    if tuple(weight.shape) != sizes:
        raise _unsupported(path.name, f"its weight is {tuple(weight.shape)}, its configuration says {sizes}")
    return activation.lower(), Dense(weight, torch.zeros(len(weight)) if bias is None else bias)


def _max_tokens(folder: Path, most: int, *, lower_case: bool) -> int:
    """Tokens of a text, at most so many."""
    file = next(iter(sorted(folder.glob(TRANSFORMER_FILES))), folder / TRANSFORMER_FILES)
    config = _optional(file)
    _check(file, config, _TRANSFORMER)
    if config.get("do_lower_case") and not lower_case:
        raise _unsupported(file.name, "do_lower_case is not supported for a tokenizer that keeps upper case")
    limit = config.get("max_seq_length")
    if limit is None:
        limit = _optional(folder / TOKENIZER_CONFIG).get("model_max_length", most)
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not limit >= MIN_TOKENS:
        raise _unsupported(file.name, f"texts of {limit!r} tokens; at least {MIN_TOKENS}")
    return int(min(limit, most))


def _check(path: Path, config: Mapping[str, Any], supported: Mapping[str, tuple[object, ...]]) -> None:
    for name, values in supported.items():
        if config.get(name, values[0]) not in values:
            raise _unsupported(path.name, f"{name} {str(config[name])[:100]} is not supported")


def _read(path: Path) -> dict[str, Any]:
    """A JSON file of a module, whose folder messages name."""
    try:
        return read_json(path, missing=_CODE, damaged=_CODE)
    except HplmError as error:
        raise _unsupported(path.parent.name, error.message) from error


def _optional(path: Path) -> dict[str, Any]:
    return read_json(path, missing=_CODE, damaged=_CODE) if path.is_file() else {}


def _unsupported(where: str, message: str) -> HplmError:
    return HplmError(_CODE, f"{where}: {message}")
