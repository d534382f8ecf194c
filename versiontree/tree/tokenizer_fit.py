"""How well a root's tokenizer and maximum length fit an upload, before training on it."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, Final
from weakref import WeakValueDictionary

from django.conf import settings

from tenants.base.errors import ErrorCode, HmiError, require_found
from tenants.base.ttl_cache import cached
from tenants.base.upload_concurrency import ConcurrencyLimit
from tenants.datasets.formats.sampling import (
    RowLocation,
    SampledFile,
    Texts,
    corpus_texts,
    dataset_texts,
    sample,
)
from tenants.datasets.models import Corpus, Dataset, Split, Task
from tenants.datasets.storage import stored_path
from versiontree.artifact_store import ArtifactStore
from versiontree.tree.checkpoints import checkpoint_max_tokens
from versiontree.tree.models import Version
from versiontree.tree.models.artifact import Role
from versiontree.tree.models.version import VersionKind
from versiontree.tree.tokenized_rows import (
    LongTextPolicy,
    TokenizerFit,
    TokenRow,
    fit_warnings,
    tokenize_rows,
    tokenizer_fit,
)

TOKENIZER_FILE: Final = "tokenizer.json"
ENCODER_CONFIG: Final = "root.json"
DECODER_CONFIG: Final = "decoder.json"
PREVIEW_ROWS: Final = 5
KEPT_S: Final = 3600
"""Neither a root nor a stored file changes: a fit is kept while somebody asks for it."""
RETRY_AFTER_S: Final = 2

MAX_FITS_AT_ONCE: Final = 8
"""Of different files of a tenant in a web process; one is computed at a time."""

_in_progress: Final = ConcurrencyLimit(MAX_FITS_AT_ONCE)
_turns: Final[defaultdict[int | str, Lock]] = defaultdict(Lock)
"""Of the tenants whose texts are read."""
_under_way: Final[WeakValueDictionary[str, Lock]] = WeakValueDictionary()
"""Of the fits that are computed, by the key of the cache."""


def root_version_by_name(name: str) -> Version:
    """The version of the root with this name, or ``not_found``."""
    row = Version.unscoped.filter(kind=VersionKind.ROOT, root__name=name).first()
    return require_found(row, "root", param="root")


def root_config(version: Version) -> dict[str, Any]:
    """The content of the ``root.json`` of the version's root, or of the ``decoder.json`` of a decoder.

    Raises ``model_not_ready`` (the root), ``not_found`` (the file is gone).
    """
    return _config(_root_folder(version))


def corpus_fit(version: Version, corpus: Corpus) -> TokenizerFit:
    """The fit of the version's root to a sample of the corpus.

    Raises ``model_not_ready`` (the root), ``not_found`` (the file is gone), and ``queue_full`` while many
    fits of the tenant wait for each other.
    """
    return _upload_fit(version, corpus, task=None)


def dataset_fit(version: Version, dataset: Dataset) -> TokenizerFit:
    """The fit of the version's root to a sample of all splits. Raises as ``corpus_fit``."""
    return _upload_fit(version, dataset, task=dataset.task)


def _upload_fit(version: Version, upload: Corpus | Dataset, *, task: str | None) -> TokenizerFit:
    parts, root = upload_parts(upload), _root_folder(version).name
    files = ",".join(f"{part.split}:{part.path.name}" for part in parts)

    key = f"fit:{root}:{task}:{files}"

    def compute() -> TokenizerFit:
        with _one_at_a_time(upload.tenant_id):
            return files_fit(version, parts, task=task)

    def compute_or_wait() -> TokenizerFit:
        with _under_way.setdefault(key, Lock()):  # whoever waited for the same fit finds it in the cache
            return cached(key, compute, KEPT_S)

    return cached(key, compute_or_wait, KEPT_S)


@contextmanager
def _one_at_a_time(tenant: int | None) -> Iterator[None]:
    owner = "platform" if tenant is None else tenant
    if not _in_progress.acquire(owner):
        message = "Other uploads are being read. Try again in a few seconds."
        details = {"limit": MAX_FITS_AT_ONCE}
        raise HmiError(ErrorCode.QUEUE_FULL, message, details=details, retry_after=RETRY_AFTER_S)
    try:
        with _turns[owner]:
            yield
    finally:
        _in_progress.release(owner)


def files_fit(version: Version, parts: Sequence[SampledFile], *, task: str | None) -> TokenizerFit:
    """The fit of the version's root to stored files: splits of a dataset of this task, or a corpus (None)."""
    if task is None:
        texts_of, too_long = corpus_texts, LongTextPolicy.PIECES
    else:
        windows = task == Task.QUESTION_ANSWERING
        texts_of, too_long = dataset_texts, LongTextPolicy.WINDOWS if windows else LongTextPolicy.CUT
    folder = _root_folder(version)
    return _read(parts, texts_of, folder / TOKENIZER_FILE, _max_tokens(folder), too_long)


def root_max_tokens(version: Version) -> int:
    """The maximum tokens of an input of the version's root. Raises as ``root_config``."""
    return _max_tokens(_root_folder(version))


def upload_parts(upload: Corpus | Dataset) -> list[SampledFile]:
    """The stored files of a corpus, or of the splits of a dataset."""
    if isinstance(upload, Corpus):
        return [_corpus_part(upload)]
    order = list(Split)
    splits = sorted(upload.splits.all(), key=lambda split: order.index(Split(split.split)))
    return [SampledFile(stored_path(one.sha256), one.rows, one.size_bytes, one.split) for one in splits]


def corpus_tokens(version: Version, corpus: Corpus) -> list[TokenRow]:
    """The first texts of a corpus as tokens of the version's root. Raises as ``corpus_fit``."""
    with _one_at_a_time(corpus.tenant_id):
        return _tokens(version, _first_rows(stored_path(corpus.sha256), None), corpus_texts)


def dataset_tokens(version: Version, dataset: Dataset) -> list[TokenRow]:
    """The first rows of train as tokens of the version's root. Raises as ``corpus_fit``."""
    train = next(split for split in dataset.splits.all() if split.split == Split.TRAIN)
    with _one_at_a_time(dataset.tenant_id):
        return _tokens(version, _first_rows(stored_path(train.sha256), Split.TRAIN.value), dataset_texts)


def corpus_warnings(version: Version, corpus: Corpus) -> dict[str, list[str]]:
    """``{"warnings": [...]}`` for the config of a version, if the corpus hardly fits its root. Else empty.

    Raises ``queue_full`` as ``corpus_fit``.
    """
    return _warnings(lambda: corpus_fit(version, corpus))


def checkpoint_warnings(
    source: str, corpus: Corpus, *, max_tokens: int | None = None
) -> dict[str, list[str]]:
    """As ``corpus_warnings``, for the checkpoint of a new root. ``max_tokens`` overrides its own.

    Empty for a hub id: it is not downloaded yet.
    """
    folder = Path(source)
    if not (folder / TOKENIZER_FILE).is_file():
        return {}
    return _warnings(lambda: _checkpoint_fit(folder, corpus, max_tokens))


def dataset_warnings(version: Version, dataset: Dataset) -> dict[str, list[str]]:
    """As ``corpus_warnings``, for a dataset."""
    return _warnings(lambda: dataset_fit(version, dataset))


def _warnings(fit: Callable[[], TokenizerFit]) -> dict[str, list[str]]:
    try:
        found = fit_warnings(fit())
    except (HmiError, OSError) as error:
        if isinstance(error, HmiError) and error.code is ErrorCode.QUEUE_FULL:
            raise
        # Errors of the root or the upload are reported where they are used. Warnings are optional.
        return {}
    return {"warnings": found} if found else {}


def _checkpoint_fit(folder: Path, corpus: Corpus, max_tokens: int | None) -> TokenizerFit:
    longest = max_tokens or checkpoint_max_tokens(folder)
    return _read(
        [_corpus_part(corpus)], corpus_texts, folder / TOKENIZER_FILE, longest, LongTextPolicy.PIECES
    )


def _read(
    parts: Sequence[SampledFile],
    texts_of: Callable[[str], Texts],
    tokenizer: Path,
    max_tokens: int,
    too_long: LongTextPolicy,
) -> TokenizerFit:
    try:
        return tokenizer_fit(
            sample(parts, texts_of),
            tokenizer=tokenizer,
            max_tokens=max_tokens,
            total_rows=sum(part.rows for part in parts),
            too_long=too_long,
        )
    except FileNotFoundError as error:
        raise HmiError(ErrorCode.NOT_FOUND, "The file of this upload is gone.") from error


def _first_rows(path: Path, split: str | None) -> Iterator[tuple[RowLocation, str]]:
    try:
        with path.open(encoding="utf-8", newline="\n") as lines:
            for number, line in enumerate(islice(lines, PREVIEW_ROWS), start=1):
                yield RowLocation(number, split), line
    except FileNotFoundError as error:
        raise HmiError(ErrorCode.NOT_FOUND, "The file of this upload is gone.") from error


def _tokens(
    version: Version, rows: Iterable[tuple[RowLocation, str]], texts_of: Callable[[str], Texts]
) -> list[TokenRow]:
    folder = _root_folder(version)
    read = ((place, texts_of(line)) for place, line in rows)
    return tokenize_rows(read, tokenizer=folder / TOKENIZER_FILE, max_tokens=_max_tokens(folder))


def _corpus_part(corpus: Corpus) -> SampledFile:
    return SampledFile(stored_path(corpus.sha256), corpus.rows, corpus.size_bytes)


def _root_folder(version: Version) -> Path:
    root = Version.unscoped.filter(kind=VersionKind.ROOT, root=version.root_id).exclude(digest="").first()
    if root is None:
        raise HmiError(ErrorCode.MODEL_NOT_READY, "The root is not ready.", param="root")
    return ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT)).path(Role.ROOT, root.digest)


def _max_tokens(folder: Path) -> int:
    try:
        return int(_config(folder)["max_tokens"])
    except (ValueError, KeyError, TypeError) as error:
        raise _unreadable() from error


def _config(folder: Path) -> dict[str, Any]:
    path = folder / ENCODER_CONFIG
    if not path.exists():
        path = folder / DECODER_CONFIG
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _unreadable() from error
    if not isinstance(found, dict):
        raise _unreadable()
    return found


def _unreadable() -> HmiError:
    return HmiError(ErrorCode.NOT_FOUND, "The root's config cannot be read.", param="root")
