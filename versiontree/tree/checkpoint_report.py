"""What a checkpoint folder holds, and what of it is not supported, read without torch before registration.

Of the weights only the headers of their safetensors files are read. The convert job reads all of it and may
still refuse it.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeGuard

from tenants.base.errors import ErrorCode, HmiError
from versiontree.tree.checkpoints import (
    MODULES_FILE,
    checkpoint_max_tokens,
    checkpoint_source,
    folder_problems,
    weight_index,
)
from versiontree.tree.root_kind import RootKind
from versiontree.tree.safetensors_header import SafetensorsHeaderError, TensorHeader, safetensors_header

MAX_JSON_BYTES: Final = 128 * 1024**2
MAX_LABELS_NAMED: Final = 5
MAX_VALUE_SHOWN: Final = 60
MAX_SIZE: Final = 10**7
"""Of the sizes in a config.json: layers, widths, positions, tokens."""
FLOATS: Final = ("F64", "F32", "F16", "BF16")
ROPE_TYPES: Final = {
    RootKind.ENCODER: ("default",),
    RootKind.DECODER: ("default", "linear", "llama3"),
}
"""The rotary scalings that are computed."""
_HIDDEN: Final = ("hidden_size", "dim", "n_embd")
_LAYERS: Final = ("num_hidden_layers", "n_layers", "n_layer")
_HEADS: Final = ("num_attention_heads", "n_heads", "n_head")
_POSITIONS: Final = ("max_position_embeddings", "n_positions")
_VOCABULARY: Final = ("vocab_size",)
_SIZES: Final = (_HIDDEN, _LAYERS, _HEADS, _POSITIONS, _VOCABULARY)
_EXPERTS: Final = ("num_experts", "num_local_experts", "n_routed_experts")
_WORD_EMBEDDING: Final = re.compile(r"(?:^|\.)(?:word_embeddings|tok_embeddings|embed_tokens|wte)\.weight$")
_LAYER: Final = re.compile(r"(?:^|\.)(?:layers?|h)\.(\d+)\.")
_HEAD: Final = re.compile(
    r"For(SequenceClassification|TokenClassification|QuestionAnswering|MultipleChoice)$"
)

Config = Mapping[str, Any]


class CheckpointFile(NamedTuple):
    """A file of the checkpoint that is read, and its size in bytes."""

    name: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointReport:
    """What was found. None is unknown, as all is of a hub id and most of a GGUF file.

    parameters: of all tensors; layer_parameters: of the layers alone. dtypes: tensors by number format.
    vocabulary: rows of the word embedding. token_ids: one more than the largest id of the tokenizer.
    head: the task head and its labels. modules: of sentence-transformers. notes: what is not read, and why
    that is no problem. problems: what is not supported, and why.
    """

    source: str
    kind: RootKind
    family: str = ""
    layers: int | None = None
    hidden: int | None = None
    parameters: int | None = None
    layer_parameters: int | None = None
    dtypes: Mapping[str, int] = field(default_factory=dict)
    vocabulary: int | None = None
    token_ids: int | None = None
    max_tokens: int | None = None
    head: str = ""
    modules: tuple[str, ...] = ()
    files: tuple[CheckpointFile, ...] = ()
    notes: tuple[str, ...] = ()
    problems: tuple[HmiError, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(file.size for file in self.files)


def supported_checkpoint(source: str, kind: RootKind = RootKind.ENCODER) -> str:
    """The absolute path of a checkpoint without problems, or a hub id.

    Raises as ``checkpoint_source``; if there are several problems, the message and ``details`` list all.
    """
    report = checkpoint_report(source, kind)
    if not report.problems:
        return report.source
    first, *others = report.problems
    details: dict[str, Any] = {"problems": [problem.message for problem in report.problems]} if others else {}
    message = " ".join(problem.message for problem in report.problems)
    raise HmiError(first.code, message, param="source", details=details)


def checkpoint_report(source: str, kind: RootKind = RootKind.ENCODER) -> CheckpointReport:
    """What the checkpoint at this folder, GGUF file or hub id is.

    Raises ``missing_field``, ``checkpoint_not_found``, and for a file also ``pickled_checkpoint`` and
    ``unsupported_checkpoint``. Problems of a folder are part of the report.
    """
    folder = Path(source.strip()).expanduser()
    if folder.is_dir() and source.strip():
        return _folder_report(folder.resolve(), kind)
    location = checkpoint_source(source, kind)
    if Path(location).is_file():
        files = (CheckpointFile(Path(location).name, Path(location).stat().st_size),)
        notes = ("The job reads what a GGUF file holds.",)
        return CheckpointReport(source=location, kind=kind, files=files, notes=notes)
    notes = (f"{location} is checked when the job has downloaded it.",)
    return CheckpointReport(source=location, kind=kind, notes=notes)


def _folder_report(folder: Path, kind: RootKind) -> CheckpointReport:
    problems = list(folder_problems(folder, kind))
    config = _json(folder / "config.json")
    config = config if isinstance(config, dict) else {}
    tensors: dict[str, TensorHeader] = {}
    files: list[CheckpointFile] = []
    for path in _weight_files(folder, problems):
        try:
            tensors |= safetensors_header(path)
            files.append(CheckpointFile(path.name, path.stat().st_size))
        except SafetensorsHeaderError as error:
            problems.append(_unsupported(f"{path.name} {error}"))
    others = [folder / name for name in ("config.json", "tokenizer.json") if (folder / name).is_file()]
    files += [CheckpointFile(path.name, path.stat().st_size) for path in others]
    tokenizer = _json(folder / "tokenizer.json")
    embedding = next((t for name, t in tensors.items() if _WORD_EMBEDDING.search(name)), None)
    report = CheckpointReport(
        source=str(folder),
        kind=kind,
        family=str(config.get("model_type") or ""),
        layers=_size(config, _LAYERS),
        hidden=_size(config, _HIDDEN),
        parameters=sum(tensor.count for tensor in tensors.values()) if tensors else None,
        layer_parameters=_layer_parameters(tensors),
        dtypes=Counter(tensor.dtype for tensor in tensors.values()),
        vocabulary=embedding.shape[0] if embedding and embedding.shape else _size(config, _VOCABULARY),
        token_ids=_token_ids(tokenizer, kind),
        max_tokens=_max_tokens(folder, config, kind),
        head=_head(config),
        modules=tuple(_modules(_json(folder / MODULES_FILE))),
        files=tuple(files),
        notes=tuple(_notes(folder, config)),
    )
    problems += map(_unsupported, _config_problems(config, kind))
    problems += map(_unsupported, _tensor_problems(tensors, report, config))
    return replace(report, problems=tuple(problems))


def _weight_files(folder: Path, problems: list[HmiError]) -> list[Path]:
    """The safetensors files that are there; what the index names and is not there becomes a problem."""
    try:
        names = weight_index(folder)
    except HmiError as error:
        problems.append(error)
        return []
    absent = [name for name in names if not (folder / name).is_file()]
    if absent and names != ["model.safetensors"]:
        problems.append(_unsupported(f"The index names files that are not there: {', '.join(absent[:3])}."))
    return [folder / name for name in names if name not in absent]


def _config_problems(config: Config, kind: RootKind) -> Iterator[str]:
    for names in _SIZES:
        for name in names:
            value = config.get(name)
            if value is not None and not _is_size(value):
                shown = str(value)[:MAX_VALUE_SHOWN]
                yield f"config.json: {name} is {shown}; it must be a whole number from 1 to {MAX_SIZE:,}."
    for scaling in _rope_types(config):
        if scaling not in ROPE_TYPES[kind]:
            computed = ", ".join(ROPE_TYPES[kind])
            yield f"config.json: rotary scaling {scaling!r} is not computed ({computed} is)."
    if any(isinstance(config.get(name), int) and config[name] > 1 for name in _EXPERTS):
        yield "config.json: it is a mixture of experts, which is not supported."
    if config.get("quantization_config"):
        yield "config.json: the weights are quantised. Register the checkpoint that they were made of."
    if kind == RootKind.ENCODER and config.get("is_decoder"):
        yield "config.json: is_decoder is set, so its tokens do not see later ones. It cannot be an encoder."


def _rope_types(config: Config) -> Iterator[str]:
    """The names of the rotary scalings of a config, which may have one for each type of layer."""
    for name in ("rope_scaling", "rope_parameters"):
        found = config.get(name)
        if isinstance(found, Mapping):
            parts = [part for part in found.values() if isinstance(part, Mapping)]
            for part in parts or [found]:
                yield str(part.get("rope_type", part.get("type", "default")))


def _tensor_problems(
    tensors: Mapping[str, TensorHeader], report: CheckpointReport, config: Config
) -> Iterator[str]:
    rows, ids = report.vocabulary, report.token_ids
    if rows is not None and ids is not None and ids > rows:
        yield f"tokenizer.json has ids up to {ids - 1:,}, but the word embedding has {rows:,} rows."
    named = _size(config, _VOCABULARY)
    if tensors and rows is not None and named is not None and named != rows:
        yield f"The word embedding has {rows:,} rows, but config.json says vocab_size {named:,}."
    numbers = {int(match[1]) for name in tensors if (match := _LAYER.search(name))}
    last = report.layers - 1 if report.layers else 0
    if numbers and report.layers and (len(numbers), max(numbers)) != (report.layers, last):
        yield f"The weights have {len(numbers)} layers, but config.json says {report.layers}."
    quantised = [name for name, tensor in tensors.items() if tensor.is_matrix and tensor.dtype not in FLOATS]
    quantised = [name for name in quantised if name.endswith("weight")]
    if quantised:
        dtype = tensors[quantised[0]].dtype
        yield f"{quantised[0]} has the number format {dtype}; weights must be floating-point numbers."


def _notes(folder: Path, config: Config) -> Iterator[str]:
    tokenizer_config = _json(folder / "tokenizer_config.json")
    parts = (config, tokenizer_config if isinstance(tokenizer_config, dict) else {})
    if any("auto_map" in part for part in parts):
        yield "It names Python code of its own (auto_map), which is not run."
    pickles = sorted(path.name for path in folder.glob("*.bin"))
    if pickles:
        yield f"{', '.join(pickles[:3])} is not read: a pickle can run code."


def _head(config: Config) -> str:
    """The task head, by the architecture of the config, and its labels."""
    architectures = config.get("architectures")
    name = str(architectures[0]) if isinstance(architectures, list) and architectures else ""
    if not _HEAD.search(name):
        return ""
    labels = config.get("id2label")
    if not isinstance(labels, Mapping) or not labels:
        return name
    shown = [str(label) for label in labels.values()][:MAX_LABELS_NAMED]
    more = ", …" if len(labels) > len(shown) else ""
    return f"{name}, {len(labels)} labels: {', '.join(shown)}{more}"


def _modules(modules: Any) -> Iterator[str]:
    """The classes of the modules of sentence-transformers, without their package."""
    for module in modules if isinstance(modules, list) else ():
        if isinstance(module, Mapping):
            yield str(module.get("type", "")).rpartition(".")[2]


def _max_tokens(folder: Path, config: Config, kind: RootKind) -> int | None:
    if kind == RootKind.DECODER or "max_position_embeddings" not in config:
        return _size(config, _POSITIONS) if kind == RootKind.DECODER else None
    try:
        return checkpoint_max_tokens(folder)
    except HmiError:
        return None


def _layer_parameters(tensors: Mapping[str, TensorHeader]) -> int | None:
    """The parameters of all layers, without the embeddings and the head."""
    found = [tensor.count for name, tensor in tensors.items() if _LAYER.search(name)]
    return sum(found) if found else None


def _token_ids(tokenizer: Any, kind: RootKind) -> int | None:
    """One more than the largest id of a tokenizer.json. Of a decoder without added tokens: the job leaves out
    those behind the vocabulary that no chat has."""
    if not isinstance(tokenizer, dict):
        return None
    model = tokenizer.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    ids = [len(vocabulary) - 1] if isinstance(vocabulary, list) else []
    if isinstance(vocabulary, dict):
        ids += [number for number in vocabulary.values() if isinstance(number, int)]
    added = tokenizer.get("added_tokens") if kind == RootKind.ENCODER else None
    for token in added if isinstance(added, list) else ():
        if isinstance(token, dict) and isinstance(token.get("id"), int):
            ids.append(token["id"])
    return max(ids) + 1 if ids else None


def _size(config: Config, names: tuple[str, ...]) -> int | None:
    found = next((config[name] for name in names if name in config), None)
    return found if _is_size(found) else None


def _is_size(value: Any) -> TypeGuard[int]:
    return type(value) is int and 1 <= value <= MAX_SIZE


def _json(path: Path) -> Any:
    """The content of a JSON file; None if it is missing, too large or damaged."""
    try:
        if path.stat().st_size > MAX_JSON_BYTES:
            return None
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def _unsupported(message: str) -> HmiError:
    return HmiError(ErrorCode.UNSUPPORTED_CHECKPOINT, message, param="source")
