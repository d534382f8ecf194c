"""How well a root's vocabulary and length fit an upload, before anything is trained on it."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from django.conf import settings

from tenants.errors import ErrorCode, HmiError
from tenants.formats.fit import Fit, corpus_rows, dataset_rows, fit_warnings, tokenizer_fit
from tenants.models import Corpus, Dataset, Split
from tenants.storage import stored_path
from versiontree.artifacts import ArtifactStore
from versiontree.checkpoints import checkpoint_longest
from versiontree.models import Version
from versiontree.models.artifact import Role
from versiontree.models.version import VersionKind

TOKENIZER_FILE: Final = "tokenizer.json"
CONFIG_FILE: Final = "root.json"


def corpus_fit(version: Version, corpus: Corpus) -> Fit:
    """What the root above the version makes of the first texts of a corpus. Raises ``not_found``."""
    return _fit(version, corpus_rows(stored_path(corpus.sha256)))


def dataset_fit(version: Version, dataset: Dataset) -> Fit:
    """What the root above the version makes of the first rows of train. Raises ``not_found``."""
    train = next((split for split in dataset.splits.all() if split.split == Split.TRAIN), None)
    if train is None:
        raise HmiError(ErrorCode.NOT_FOUND, "The dataset has no split train.", param="dataset")
    return _fit(version, dataset_rows(stored_path(train.sha256)))


def corpus_warnings(version: Version, corpus: Corpus) -> dict[str, list[str]]:
    """What a version's ``config`` says of a corpus that hardly fits the root above ``version``: a list of
    sentences under ``warnings``, or nothing."""
    return _warnings(lambda: corpus_fit(version, corpus))


def checkpoint_warnings(
    source: str, corpus: Corpus, *, max_tokens: int | None = None
) -> dict[str, list[str]]:
    """As ``corpus_warnings``, of the checkpoint of a root to be; ``max_tokens`` is less than it allows.

    Nothing of a hub id: what it names is not here yet.
    """
    folder = Path(source)
    if not (folder / TOKENIZER_FILE).is_file():
        return {}
    return _warnings(lambda: _checkpoint_fit(folder, corpus, max_tokens))


def dataset_warnings(version: Version, dataset: Dataset) -> dict[str, list[str]]:
    """As ``corpus_warnings``, of a dataset."""
    return _warnings(lambda: dataset_fit(version, dataset))


def _warnings(fit: Callable[[], Fit]) -> dict[str, list[str]]:
    try:
        found = fit_warnings(fit())
    except (HmiError, OSError):
        # Whatever is wrong with the root or the upload is said where it is used; this is only advice.
        return {}
    return {"warnings": found} if found else {}


def _checkpoint_fit(folder: Path, corpus: Corpus, max_tokens: int | None) -> Fit:
    return tokenizer_fit(
        corpus_rows(stored_path(corpus.sha256)),
        tokenizer=folder / TOKENIZER_FILE,
        max_tokens=max_tokens or checkpoint_longest(folder),
    )


def _fit(version: Version, rows: Iterable[tuple[str, ...]]) -> Fit:
    folder = _root_folder(version)
    return tokenizer_fit(rows, tokenizer=folder / TOKENIZER_FILE, max_tokens=_max_tokens(folder))


def _root_folder(version: Version) -> Path:
    root = Version.unscoped.filter(kind=VersionKind.ROOT, root=version.root_id).exclude(digest="").first()
    if root is None:
        raise HmiError(ErrorCode.NOT_FOUND, "The root is not ready.", param="root")
    return ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT)).path(Role.ROOT, root.digest)


def _max_tokens(folder: Path) -> int:
    try:
        return int(json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))["max_tokens"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HmiError(ErrorCode.NOT_FOUND, "The root's own file cannot be read.", param="root") from error
