"""Outcomes of rows, without an engine that computed them."""

import numpy as np

from inference.cascade.dispatcher import Coverage, Level
from inference.engine.rows import Answered, Failed, ModelIdentity, Row, StageSeconds

ROOT, TABLE, ROOT_TABLE = "r" * 64, "d" * 64, "t" * 64
CHAIN = f"{ROOT}:{'l' * 64}:{TABLE}:{ROOT_TABLE}"


def a_row(tenant: str = "acme", *, tokens: int = 4, hplm: str = "mood", chain: str = CHAIN) -> Row:
    """A row of so many tokens; its digest is the model's name."""
    ids = np.zeros(tokens, dtype=np.int64)
    return Row("0", ids, ids, ModelIdentity(tenant, hplm, 1, hplm), chain, Level.TABLE, tokens)


def an_answer(row: Row, *, coverage: Coverage | None = None, seconds: StageSeconds | None = None) -> Answered:
    """The row, answered."""
    return Answered(
        row=row,
        logits=np.zeros(2, dtype=np.float32),
        used=row.model,
        coverage=coverage or Coverage(whole=len(row)),
        seconds=seconds or StageSeconds(0.001, 0.002, 0.003),
        batch_rows=1,
        batch_tenants=1,
    )


def a_failure(row: Row) -> Failed:
    """The row, not answered."""
    return Failed(row, "inference_failed", "no reason")
