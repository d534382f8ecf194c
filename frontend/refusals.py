"""How a typed refusal of a service reaches the person: beside the field it is about, on the same form."""

from collections.abc import Callable
from typing import TypeVar

from django.forms import Form

from tenants.base.errors import HmiError

Result = TypeVar("Result")


def attempt(form: Form, write: Callable[[], Result]) -> Result | None:
    """Run a write. A typed refusal becomes an error of the form (on its field when it names one) and None."""
    try:
        return write()
    except HmiError as refusal:
        form.add_error(_field_of(form, refusal.param), refusal.message)
        return None


def _field_of(form: Form, param: str | None) -> str | None:
    """The field that the refusal is about; a setting of a job stands in the form under its own name."""
    name = (param or "").removeprefix("settings.")
    return name if name in form.fields else None
