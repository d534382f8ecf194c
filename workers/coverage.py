"""Measures how many fragments of an upload each version's tables hold."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from django.conf import settings
from numpy.typing import NDArray

from inference.hplm import fragments
from inference.hplm.plot import PlotChain, PlotTable
from inference.text.tokenization import TextTokenizer
from tenants.datasets.formats.sampling import RowLocation, Texts, corpus_texts, dataset_texts, sample
from tenants.datasets.models import Corpus, Dataset
from tenants.datasets.selectors.uploads import upload_by_id
from versiontree.artifact_store import ArtifactStore
from versiontree.tree.models import Version
from versiontree.tree.selectors.coverage import coverage_record, coverages_of
from versiontree.tree.selectors.lineage import build_inputs
from versiontree.tree.tokenizer_fit import upload_parts
from workers.jobs.inputs import artifact_folder

log = logging.getLogger(__name__)

Sequences = list[NDArray[np.int64]]


def coverage_measure(kind: str, upload_id: int) -> None:
    """Measure the coverage of an upload by all versions for which it is missing."""
    upload = upload_by_id(kind, upload_id)
    if upload is None or upload.tenant is None:
        return
    store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
    tokenised: dict[str, Sequences] = {}
    for version in coverages_of(upload.tenant, upload)[1]:
        levels, error_message = (0, 0, 0), ""
        try:
            levels = _levels(version, upload, store, tokenised)
        except Exception as error:  # one broken version must not stop the others
            log.exception("The coverage of %s %d by %s was not measured", kind, upload_id, version)
            error_message = f"Its tables could not be read: {error}"
        coverage_record(
            tenant=upload.tenant, upload=upload, version=version, levels=levels, error_message=error_message
        )


def _levels(
    version: Version, upload: Corpus | Dataset, store: ArtifactStore, tokenised: dict[str, Sequences]
) -> tuple[int, int, int]:
    """The number of fragments found complete, as shorter ones, and as uni-grams."""
    inputs = build_inputs(version)
    chain = PlotChain([PlotTable.open(artifact_folder(store, table)) for table in inputs.plots])
    root = artifact_folder(store, inputs.root)
    if root.name not in tokenised:
        tokenised[root.name] = _tokenise(root, upload)
    found = chain.search(fragments.extract_all(tokenised[root.name], chain.missing_id, chain.n))
    full, part, single = np.bincount(found.level[found.inverse], minlength=3)
    return int(full), int(part), int(single)


def _tokenise(root: Path, upload: Corpus | Dataset) -> Sequences:
    tokenizer = TextTokenizer.of_root(root)
    return [tokenizer.encode(*texts).ids for _, texts in _rows(upload)]


def _rows(upload: Corpus | Dataset) -> Iterator[tuple[RowLocation, Texts]]:
    texts_of: Callable[[str], Texts] = corpus_texts if isinstance(upload, Corpus) else dataset_texts
    return sample(upload_parts(upload), texts_of)
