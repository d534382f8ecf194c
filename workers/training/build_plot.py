"""Make a PLOT: what the local lower half says for the fragments of a corpus worth keeping (paper section
5.1).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from inference.hplm import fragments
from inference.hplm.json_files import read_artifact_json
from inference.hplm.local_lower import LocalLower
from inference.hplm.plot_writer import write_plot
from inference.hplm.root import ROOT_FILE, TOKENIZER_FILE
from inference.hplm.root_config import RootConfig
from workers.training.corpus import CorpusReader, Ids, read_corpus
from workers.training.ngrams import FragmentCounts, Keys, count_fragments, covering
from workers.training.precision import Arithmetic, arithmetic
from workers.training.progress import Reporter
from workers.training.tidy import written_whole

# Corpus sequences between two looks at whether the job is cancelled.
CHECK_EVERY = 200


@dataclass(frozen=True)
class PlotSettings:
    """fragments_per_batch: fragments computed together; a block of the file is written from each batch."""

    seed: int = 0
    device: str = "auto"
    precision: str = "auto"
    fragments_per_batch: int = 2048


def build_plot(
    *,
    root: Path,
    lower: Path,
    corpus: Path,
    out: Path,
    alpha: float,
    settings: PlotSettings,
    reporter: Reporter,
    all_unigrams: bool,
) -> dict[str, Any]:
    """Write a table to `out` and report {rows, bytes, levels, coverage, alpha}.

    Keeps the most frequent tri-grams, and bi-grams, that cover `alpha` % of the occurrences of each in the
    corpus, every fragment at the ends of its texts, and the uni-grams of its tokens, or of the whole
    vocabulary (`all_unigrams`, for a root, whose table is the last resort).
    """
    computing = arithmetic(device=settings.device, precision=settings.precision, seed=settings.seed)
    config = RootConfig.from_json(read_artifact_json(root / ROOT_FILE))
    counts = _count(corpus, root, config, reporter)
    keys, coverage = choose_fragments(counts, config, alpha=alpha, all_unigrams=all_unigrams)
    local = LocalLower.load(lower, computing.device)
    reporter.stage("compute fragments", len(keys))
    meta = {"missing_id": config.missing_id, "alpha": alpha, "lower_digest": lower.name}
    blocks = _blocks(keys, local, computing, settings.fragments_per_batch, reporter)
    with written_whole(out):
        about = write_plot(out, blocks, meta, local.position_bias.detach().cpu())
    size = sum(file.stat().st_size for file in out.iterdir())
    return {
        "rows": about["rows"],
        "bytes": size,
        "alpha": alpha,
        "levels": about["levels"],
        "coverage": coverage,
    }


def _count(corpus: Path, root: Path, config: RootConfig, reporter: Reporter) -> FragmentCounts:
    opened = read_corpus(corpus)
    reporter.stage("count fragments", len(opened))

    def texts() -> Iterator[str]:
        for number, text in enumerate(opened.texts()):
            if number % CHECK_EVERY == 0:
                reporter.check()
                reporter.advance(number)
            yield text

    reader = CorpusReader(root / TOKENIZER_FILE, config)
    return count_fragments(reader.sequences(texts()), config.missing_id)


def choose_fragments(
    counts: FragmentCounts, config: RootConfig, *, alpha: float, all_unigrams: bool
) -> tuple[Keys, dict[str, float]]:
    """Ascending keys of the fragments to keep, and which share of the corpus's occurrences each order
    covers.
    """
    trigrams, pairs = covering(*counts.trigrams, alpha), covering(*counts.pairs, alpha)
    missing = config.missing_id
    ends = fragments.unpack(pairs)[:, :2]
    absent = np.full(len(ends), missing, dtype=np.int64)
    left = np.stack((ends[:, 0], ends[:, 1], absent), axis=1)
    right = np.stack((absent, ends[:, 0], ends[:, 1]), axis=1)
    tokens: Ids = np.arange(config.vocab, dtype=np.int64) if all_unigrams else counts.tokens
    alone = np.full(len(tokens), missing, dtype=np.int64)
    unigrams = np.stack((alone, tokens, alone), axis=1)
    packed = [fragments.pack(part) for part in (left, right, unigrams)]
    keys = np.unique(np.concatenate([trigrams, counts.boundary, *packed]))
    coverage = {"trigram": _share(trigrams, counts.trigrams), "bigram": _share(pairs, counts.pairs)}
    return keys, coverage


def _share(kept: Keys, counted: tuple[Keys, npt.NDArray[np.int64]]) -> float:
    keys, occurrences = counted
    if not len(keys):
        return 0.0
    return float(occurrences[np.isin(keys, kept, assume_unique=True)].sum() / occurrences.sum())


def _blocks(
    keys: Keys, local: LocalLower, computing: Arithmetic, size: int, reporter: Reporter
) -> Iterator[tuple[Keys, npt.NDArray[np.float16]]]:
    for start in range(0, len(keys), size):
        reporter.check()
        block = keys[start : start + size]
        wanted = torch.from_numpy(fragments.unpack(block)).to(computing.device)
        with torch.no_grad(), computing.autocast():
            vectors = local(wanted)
        yield block, vectors.float().cpu().numpy().astype(np.float16)
        reporter.advance(start + len(block))
