"""Many rows like one that is there."""

import hashlib
import re
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
        rows = [self._copy(like, number) for number in range(self.count)]
        self.add(model, rows)

    def add(self, model: Model, rows: list[Any]) -> None:
        """Rows that somebody else made."""
        self.made[model] = list(model._base_manager.bulk_create(rows, batch_size=AT_ONCE))

    def _copy(self, like: models.Model, number: int) -> models.Model:
        fields = like._meta.concrete_fields
        return type(like)(**{field.attname: self._value(field, like, number) for field in fields})

    def _value(self, field: Any, like: models.Model, number: int) -> Any:
        value = getattr(like, field.attname)
        if field.remote_field is not None:
            others = self.made.get(field.related_model)
            return value if value is None or others is None else others[number].pk
        together = {name for names in like._meta.unique_together for name in names}
        if not field.primary_key and not field.unique and field.name not in together:
            return value
        if field.primary_key and field.get_internal_type().endswith("AutoField"):
            return None
        return (
            field.get_default() if isinstance(field, models.UUIDField) else self._word(field, value, number)
        )

    def _word(self, field: Any, value: Any, number: int) -> Any:
        told = f"{self.serial}{number}"
        if not isinstance(value, str) or isinstance(field, models.GenericIPAddressField):
            return value
        if re.fullmatch("[0-9a-f]{64}", value):
            return hashlib.sha256(told.encode()).hexdigest()
        return told[-field.max_length :]
