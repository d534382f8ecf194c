"""Downloads checkpoints from the Hugging Face hub, or a mirror of it, for the jobs that convert them."""

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, cast

from django.conf import settings

from inference.machine_memory import check_weights_fit
from inference.pickled_weights import PICKLED_SUFFIXES, pickled_reason
from tenants.base.child_process import WorkerStopping
from tenants.base.disk import INCOMING, free_space_check
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.secrets import mask_secrets
from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import Job
from versiontree.jobs.services.transitions import LeaseLost
from versiontree.tree.checkpoints import checkpoint_hub_id
from workers.training.progress import Reporter

if TYPE_CHECKING:
    from huggingface_hub.hf_api import RepoSibling

STAGE: Final = "download checkpoint"
_ALLOW_PATTERNS: Final = [
    *("config.json", "tokenizer.json", "model*.safetensors", "model.safetensors.index.json"),
    "spm.model",
    *("generation_config.json", "tokenizer_config.json", "chat_template.jinja"),  # of decoders
    # of sentence-transformers, whose modules lie in folders of their own: `2_Dense`
    *("modules.json", "config_sentence_transformers.json", "sentence_*_config.json"),
    *("[1-9]_*/config.json", "[1-9]_*/model.safetensors"),
]
_IGNORE_PATTERNS: Final = ["*/*/*", "[!1-9]*/*", "?[!_]*/*"]
_SHA256_CHARACTERS: Final = 64
_ANSWER_S: Final = 30.0


class DownloadBroken(HmiError):
    """The hub cannot be reached, or broke off. A retry of the job continues the download."""


@contextmanager
def local_checkpoint(job: Job, store: ArtifactStore, reporter: Reporter) -> Iterator[Path]:
    """The folder or file of a job's checkpoint; one of the hub is downloaded first, and removed at the end.

    What was downloaded stays, for the next attempt or a retry, only if the download broke or the worker
    stops; the store removes it after a day. Raises ``checkpoint_not_found``, ``pickled_checkpoint``,
    ``unsupported_checkpoint`` (a file is not what the hub declares), ``checkpoint_unavailable``,
    ``out_of_disk``, and HplmError(out_of_memory).
    """
    source = job.params["source"]
    if not checkpoint_hub_id(source):
        yield Path(source)
        return
    folder = store.root / INCOMING / f"download-{job.pk}"
    is_kept = False
    try:
        yield _download(source, folder, reporter)
    except (DownloadBroken, WorkerStopping, LeaseLost):
        is_kept = True
        raise
    finally:
        if not is_kept:
            shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class _HubFile:
    """A file at the hub. digest: the sha256 of a large file, the git hash of another."""

    name: str
    size: int
    digest: str

    @classmethod
    def of(cls, found: "RepoSibling") -> "_HubFile":
        digest = found.lfs.sha256 if found.lfs else found.blob_id
        if found.size is None or digest is None:
            message = f"{_shown_endpoint()} does not say the size and hash of {found.rfilename}."
            raise HmiError(ErrorCode.CHECKPOINT_UNAVAILABLE, message)
        return cls(found.rfilename, found.size, digest)

    def is_same(self, file: Path) -> bool:
        """Whether a file has the content that the hub declares."""
        if not file.is_file() or file.stat().st_size != self.size:
            return False
        sha1 = hashlib.sha1(b"blob %d\0" % self.size, usedforsecurity=False)
        digest = hashlib.sha256() if len(self.digest) == _SHA256_CHARACTERS else sha1
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
        return digest.hexdigest() == self.digest


def _download(hub_id: str, folder: Path, reporter: Reporter) -> Path:
    from huggingface_hub import constants, snapshot_download  # slow to import

    complete, partial = folder / "checkpoint", folder / "partial"
    if complete.is_dir():  # An attempt that was interrupted later has it.
        return complete
    with _hub_errors(hub_id):
        if constants.is_offline_mode():
            return Path(snapshot_download(hub_id, local_files_only=True))
        revision, files = _files_at_hub(hub_id)
        total = sum(file.size for file in files)
        check_weights_fit(total)
        reporter.start_stage(STAGE, total)
        partial.mkdir(parents=True, exist_ok=True)
        free_space_check(partial, total - _size(partial))
        done = 0
        for file in files:
            _fetch(hub_id, revision, file, partial, _Progress(reporter, file, done))
            done += file.size
            reporter.report(done)
    return partial.rename(complete)


def _files_at_hub(hub_id: str) -> tuple[str, Sequence[_HubFile]]:
    """The revision of a checkpoint, and those of its files that are read. Raises ``pickled_checkpoint``."""
    from huggingface_hub import HfApi

    try:
        found = HfApi(endpoint=settings.HF_ENDPOINT).model_info(
            hub_id, files_metadata=True, timeout=_ANSWER_S
        )
    except (ValueError, KeyError, TypeError) as error:
        message = f"{_shown_endpoint()} does not answer like a hub: {type(error).__name__}."
        raise HmiError(ErrorCode.CHECKPOINT_UNAVAILABLE, message) from error
    siblings = found.siblings or []
    names = [file.rfilename for file in siblings if "/" not in file.rfilename]
    pickled = sorted(name for name in names if Path(name).suffix in PICKLED_SUFFIXES)
    if pickled and not any(name.endswith(".safetensors") for name in filter(_is_read, names)):
        reason = f"{hub_id} has {pickled_reason(pickled)}. Then register that folder."
        raise HmiError(ErrorCode.PICKLED_CHECKPOINT, reason)
    return found.sha or "main", [_HubFile.of(file) for file in siblings if _is_read(file.rfilename)]


def _is_read(name: str) -> bool:
    is_ignored = any(fnmatch(name, pattern) for pattern in _IGNORE_PATTERNS)
    return not is_ignored and any(fnmatch(name, pattern) for pattern in _ALLOW_PATTERNS)


def _fetch(hub_id: str, revision: str, file: _HubFile, folder: Path, progress: "_Progress") -> None:
    """Download a file, from where an earlier download of the same content stopped."""
    from huggingface_hub import get_token, hf_hub_url
    from huggingface_hub.file_download import http_get

    target = folder / file.name
    if file.is_same(target):
        return
    target.parent.mkdir(exist_ok=True)
    part = target.with_name(f"{target.name}.{file.digest[:16]}.part")
    token = get_token()
    # Of a compressed file the bytes that are missing could not be asked for by their number.
    headers = {"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {token}"} if token else {})
    with part.open("ab") as stream:
        progress.update(stream.tell())
        http_get(
            hf_hub_url(hub_id, file.name, revision=revision, endpoint=settings.HF_ENDPOINT),
            stream,
            resume_size=stream.tell(),
            headers=headers,
            expected_size=file.size,
            displayed_filename=file.name,
            tqdm_class=cast("Any", progress),
        )
    if not file.is_same(part):
        part.unlink()
        message = f"{hub_id}: {file.name} is not the file that the hub declares. Retry the job."
        raise HmiError(ErrorCode.UNSUPPORTED_CHECKPOINT, message)
    part.rename(target)


class _Progress:
    """What the hub's client takes for the class of its progress bars, and for the bar itself."""

    def __init__(self, reporter: Reporter, file: _HubFile, before: int) -> None:
        """before: the bytes of the files before."""
        self._reporter, self._file, self._before, self._done = reporter, file, before, 0

    def __call__(self, **_: object) -> "_Progress":
        return self

    def __enter__(self) -> "_Progress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is to be closed."""

    def update(self, count: int) -> None:
        """Report `count` more bytes, before they are written; fewer if the hub starts again."""
        self._done += count
        if self._done > self._file.size:
            message = f"{self._file.name} is larger than the {self._file.size} bytes that the hub declares."
            raise HmiError(ErrorCode.UNSUPPORTED_CHECKPOINT, message)
        self._reporter.report(self._before + self._done)


@contextmanager
def _hub_errors(hub_id: str) -> Iterator[None]:
    """Turn errors of the hub's client into errors that say what to do. None names the token."""
    import httpx2
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    hub = _shown_endpoint()
    try:
        yield
    except GatedRepoError as error:
        message = (
            f"{hub_id} is gated: accept its licence at {hub}/{hub_id}, set HF_TOKEN to a token of that "
            "account, and retry the job."
        )
        raise HmiError(ErrorCode.CHECKPOINT_UNAVAILABLE, message) from error
    except RepositoryNotFoundError as error:
        message = (
            f"There is no folder {hub_id!r}, and at {hub} no such model, or none that HF_TOKEN may read."
        )
        raise HmiError(ErrorCode.CHECKPOINT_NOT_FOUND, message) from error
    except LocalEntryNotFoundError as error:
        message = f"{hub_id} is not in the cache of the hub's client, and HF_HUB_OFFLINE is set."
        raise HmiError(ErrorCode.CHECKPOINT_UNAVAILABLE, message) from error
    except HfHubHTTPError as error:
        status = error.response.status_code
        if status in (401, 403):
            message = f"{hub} refuses {hub_id} ({status}): HF_TOKEN is not valid, or may not read it."
            raise HmiError(ErrorCode.CHECKPOINT_UNAVAILABLE, message) from error
        raise _broken(hub_id, f"{hub} answered {status}") from error
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise _broken(hub_id, f"the connection to {hub} failed ({type(error).__name__})") from error
    except OSError as error:
        if error.errno is not None:  # of this machine's disk
            raise
        raise _broken(hub_id, f"{hub} sent less than it declares") from error


def _shown_endpoint() -> str:
    """The hub's address, without a password."""
    return mask_secrets(settings.HF_ENDPOINT)


def _broken(hub_id: str, reason: str) -> DownloadBroken:
    return DownloadBroken(
        ErrorCode.CHECKPOINT_UNAVAILABLE,
        f"{hub_id} could not be downloaded: {reason}. Retry the job; what has arrived is not fetched again.",
    )


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
