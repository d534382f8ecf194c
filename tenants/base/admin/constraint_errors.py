"""Errors of database constraints, shown at a field of the form."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from django import forms
from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db.models import BaseConstraint, CheckConstraint, F, Q, UniqueConstraint

if TYPE_CHECKING:
    FormBase = forms.ModelForm[Any]
else:
    FormBase = object


class ConstraintErrors(FormBase):
    """A model form that shows the message of a violated constraint at a field. Name it first in the bases.

    Django shows it above the form, unless the constraint is the uniqueness of a single field.
    """

    def _update_errors(self, errors: ValidationError) -> None:
        """Add the errors of the model's validation, those of constraints at their fields."""
        fields = {
            str(constraint.get_violation_error_message()): self._field_of_constraint(constraint)
            for _, constraints in self.instance.get_constraints()
            for constraint in constraints
        }
        by_field: dict[str, list[ValidationError]] = {}
        for name, found in errors.update_error_dict({}).items():
            for error in found:
                place = fields.get(str(error.message)) if name == NON_FIELD_ERRORS else None
                by_field.setdefault(place or name, []).append(error)
        super()._update_errors(ValidationError(by_field))  # type: ignore[misc] # not in the stubs

    def _field_of_constraint(self, constraint: BaseConstraint) -> str | None:
        """Return the last field of the form that the constraint is about: in a tenant's name, the name."""
        names = set(_fields_of(constraint))
        return next((name for name in reversed(self.fields) if name in names), None)


def _fields_of(constraint: BaseConstraint) -> Iterator[str]:
    if isinstance(constraint, CheckConstraint) and isinstance(constraint.condition, Q):
        yield from constraint.condition.referenced_base_fields
    if isinstance(constraint, UniqueConstraint):
        yield from constraint.fields
        expressions: Any = constraint.expressions
        for expression in expressions:
            references: list[Any] = [part for part in expression.flatten() if isinstance(part, F)]
            yield from (reference.name for reference in references)
