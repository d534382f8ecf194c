"""What one version of a model answered, as counts, and how they are written to the database."""

from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields
from datetime import date
from typing import Final, Self

from django.db import connection

from tenants.base.scope import platform_scope
from tenants.usage.models import AnswerDay


@dataclass(slots=True)
class AnswerCount:
    """Counts of requests, texts and tokens, as in `AnswerDay`."""

    texts: int = 0
    table_texts: int = 0
    confidence: float = 0.0
    cascade_texts: int = 0
    escalated_texts: int = 0
    whole: int = 0
    part: int = 0
    unigram: int = 0
    checked_texts: int = 0
    agreed_texts: int = 0
    requests: int = 0
    failed: int = 0

    def __add__(self, other: Self) -> "AnswerCount":
        return AnswerCount(*(one + more for one, more in zip(astuple(self), astuple(other), strict=True)))


AnswerCounts = dict[int, dict[tuple[date, str, int], AnswerCount]]
"""By the tenant's id, then by day, model and version."""

COUNTED: Final = tuple(field.name for field in fields(AnswerCount))
_COLUMNS: Final = ", ".join(COUNTED)

# As the upsert of usage: rows are locked in a fixed order. Nothing is kept of a tenant that is being deleted.
_UPSERT: Final = """
    INSERT INTO {answers} AS kept (tenant_id, model_name, version, day, {columns})
    SELECT new.tenant_id, new.model_name, new.version, new.day, {sums}
    FROM unnest(%s::bigint[], %s::date[], %s::text[], %s::integer[], {types})
        AS new (tenant_id, day, model_name, version, {columns})
    JOIN {tenants} AS tenant ON tenant.id = new.tenant_id AND tenant.deletion_requested_at IS NULL
    GROUP BY 1, 2, 3, 4
    ORDER BY 1, 2, 3, 4
    ON CONFLICT (tenant_id, model_name, version, day) DO UPDATE SET {added}
"""


def upsert_answers(counts: Mapping[int, Mapping[tuple[date, str, int], AnswerCount]]) -> None:
    """Add the counts to the rows of their versions and days."""
    rows = [
        (tenant_id, *key, *astuple(count))
        for tenant_id, of_tenant in counts.items()
        for key, count in of_tenant.items()
    ]
    statement = _UPSERT.format(
        answers=AnswerDay._meta.db_table,
        tenants=AnswerDay._meta.get_field("tenant").related_model._meta.db_table,
        columns=_COLUMNS,
        sums=", ".join(f"sum(new.{name})" for name in COUNTED),
        types=", ".join("%s::float8[]" if name == "confidence" else "%s::bigint[]" for name in COUNTED),
        added=", ".join(f"{name} = kept.{name} + EXCLUDED.{name}" for name in COUNTED),
    )
    with platform_scope(), connection.cursor() as cursor:
        cursor.execute(statement, [list(column) for column in zip(*rows, strict=True)])
