"""A tiny artifact root with everything that an inference worker serves from, and its manifest."""

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference.hplm.hplm import Hplm
from inference.hplm.plot import PlotChain, PlotTable
from inference.hplm.root import Root
from inference.text.codec import TextCodec
from inference.text.outputs import OutputNames
from inference.text.tasks import Task
from tests.unit.tiny import TWO_TASKS, tiny_hplms, tiny_lower, tiny_plot, tiny_root, tiny_texts


@dataclass(frozen=True, slots=True)
class TinyHplm:
    """A model lying in an artifact root: whose, which version, the chain of tables it reads, the lower layers
    of the nearest, the digest of its root, and how its texts are read."""

    tenant: str
    hplm: str
    version: int
    digest: str
    plots: tuple[str, ...]
    lower: str
    model: Hplm
    root: str
    codec: TextCodec


@dataclass(frozen=True, slots=True)
class TinyWorld:
    """An artifact root with one root, its own table, a domain's table, and models of two tenants under
    both."""

    artifact_root: Path
    root: Root
    root_digest: str
    lower_digest: str
    hplms: tuple[TinyHplm, ...]

    def folder(self, kind: str, digest: str) -> Path:
        return artifact_folder(self.artifact_root, kind, digest)

    def chain(self, hplm: TinyHplm) -> PlotChain:
        return PlotChain([PlotTable.open(self.folder("plot", digest)) for digest in hplm.plots])

    def publish(self, *, revision: int = 1, hplms: Sequence[TinyHplm] | None = None, **more: Any) -> Path:
        """Write manifest.json (of all models, or of those given) as the web process would; returns its path.
        ``more`` are further parts of it."""
        served = self.hplms if hplms is None else hplms
        root = {
            "name": "tiny",
            "path": f"root/{self.root_digest[:2]}/{self.root_digest}",
            "files": checksums(self.folder("root", self.root_digest)),
            "lower": self.lower_digest,
        }
        lowers = {self.lower_digest, *(hplm.lower for hplm in served)}
        manifest = {
            "format": 2,
            "revision": revision,
            "roots": {self.root_digest: root},
            "lowers": {
                digest: {"files": checksums(self.folder("lower", digest))} for digest in sorted(lowers)
            },
            "hplms": {f"{h.tenant}/{h.hplm}:{h.version}": self._served(h) for h in served},
            **more,
        }
        path = self.artifact_root / "manifest.json"
        partial = path.with_suffix(".tmp")
        partial.write_text(json.dumps(manifest))
        partial.replace(path)
        return path

    def _served(self, hplm: TinyHplm) -> dict[str, Any]:
        return {
            "tenant": hplm.tenant,
            "hplm": hplm.hplm,
            "version": hplm.version,
            "digest": hplm.digest,
            "task": hplm.model.task,
            "root": self.root_digest,
            "plots": list(hplm.plots),
            "lower": hplm.lower,
            "pairs": hplm.model.pairs,
            "files": checksums(self.folder("hplm", hplm.digest)),
        }


def codec_of(root: Root, model: Hplm) -> TextCodec:
    """How the texts of a model are read, and its outputs named."""
    return TextCodec(root.tokenizer, OutputNames(model.task, model.labels, model.threshold))


def tiny_world(
    artifact_root: Path,
    *,
    hplms: int = 6,
    tasks: Sequence[Task] = TWO_TASKS,
    make: Callable[[Root], Sequence[Hplm]] | None = None,
    **checkpoint: Any,
) -> TinyWorld:
    """Build everything in an artifact root and publish its manifest: so many models, or those that ``make``
    gives. The root's table holds fp16 numbers, the domain's int8. Takes about a second."""
    scratch = artifact_root / ".incoming" / "tiny"
    root = tiny_root(scratch / "checkpoint", **checkpoint)
    root.save(scratch / "root")
    lowers = [tiny_lower(root, seed=n) for n in range(2)]
    for number, lower in enumerate(lowers):
        lower.save(scratch / f"lower{number}")
    texts = tiny_texts(60)
    tiny_plot(scratch / "root_plot", root, lowers[0], texts, share=0.5)
    some, domain = texts[:30], scratch / "domain_plot"
    tiny_plot(domain, root, lowers[1], some, share=0.4, all_unigrams=False, seed=1, dtype="int8")
    root_plot = place(artifact_root, "plot", scratch / "root_plot")
    chains = ((root_plot,), (place(artifact_root, "plot", domain), root_plot))
    lower_digests = [place(artifact_root, "lower", scratch / f"lower{number}") for number in range(2)]
    root_digest = place(artifact_root, "root", scratch / "root")
    built = []
    made = tiny_hplms(root, hplms, tasks) if make is None else make(root)
    for number, fresh in enumerate(made):
        fresh.save(scratch / f"hplm{number}")
        model = Hplm.load(scratch / f"hplm{number}")
        digest = place(artifact_root, "hplm", scratch / f"hplm{number}")
        tenant = ("acme", "globex")[number // 2 % 2]
        built.append(
            TinyHplm(
                tenant,
                f"model{number}",
                1,
                digest,
                chains[number % 2],
                lower_digests[number % 2],
                model,
                root_digest,
                codec_of(root, model),
            )
        )
    world = TinyWorld(
        artifact_root=artifact_root,
        root=root,
        root_digest=root_digest,
        lower_digest=lower_digests[0],
        hplms=tuple(built),
    )
    shutil.rmtree(scratch)
    world.publish()
    return world


def artifact_files(folder: Path) -> dict[str, dict[str, Any]]:
    """sha256 and size of each file of an artifact."""
    return {
        path.relative_to(folder).as_posix(): {
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "size": path.stat().st_size,
        }
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def checksums(folder: Path) -> dict[str, str]:
    """The sha256 of each file of an artifact, as in a manifest."""
    return {name: entry["sha256"] for name, entry in artifact_files(folder).items()}


def artifact_folder(artifact_root: Path, kind: str, digest: str) -> Path:
    """Where an artifact lies."""
    return artifact_root / kind / digest[:2] / digest


def place(artifact_root: Path, kind: str, folder: Path) -> str:
    """Move a finished folder to where its content's digest says; returns the digest."""
    canonical = json.dumps(artifact_files(folder), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    target = artifact_folder(artifact_root, kind, digest)
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(target)
    return digest
