"""Many rows like one that is there."""

import hashlib
import re
from collections.abc import Callable
from typing import Any

from django.db import models

Model = type[models.Model]
AT_ONCE = 2000


class Copies:
    """So many rows of one model after another. Each refers to a row of its own where there are copies of what
    it refers to, so that a list that asks for each row anew is found out. ``serial`` tells names apart."""

    def __init__(self, count: int, serial: str) -> None:
        self.count, self.serial = count, serial
        self.made: dict[Model, list[Any]] = {}

    def of(self, model: Model) -> None:
        """Copies of the first row that there is."""
        like = model._base_manager.order_by("pk").first()
        assert like is not None, f"make a row of {model._meta.label} to copy"
        same, other = dict[str, Any](), dict[str, Callable[[int], Any]]()
        for field in like._meta.concrete_fields:
            value = getattr(like, field.attname)
            if made := self._maker(field, value):
                other[field.attname] = made
            elif not isinstance(field, models.AutoField):
                same[field.attname] = value
        numbers = range(self.count)
        self.add(model, [model(**same, **{name: made(n) for name, made in other.items()}) for n in numbers])

    def add(self, model: Model, rows: list[Any]) -> None:
        """Rows that somebody else made."""
        self.made[model] = list(model._base_manager.bulk_create(rows, batch_size=AT_ONCE))

    def _maker(self, field: Any, value: Any) -> Callable[[int], Any] | None:
        """What a field has in each of the copies; None where all have the same."""
        if field.remote_field is not None:
            others = self.made.get(field.related_model)
            return None if value is None or others is None else lambda number: others[number].pk
        together = {name for names in field.model._meta.unique_together for name in names}
        if isinstance(field, models.AutoField) or not (field.unique or field.name in together):
            return None
        if isinstance(field, models.UUIDField):
            return lambda _: field.get_default()
        if not isinstance(value, str) or isinstance(field, models.GenericIPAddressField):
            return None
        if re.fullmatch("[0-9a-f]{64}", value):
            return lambda number: hashlib.sha256(f"{self.serial}{number}".encode()).hexdigest()
        return lambda number: f"{self.serial}{number}"[-field.max_length :]
