"""How a typed refusal of a service reaches the person: beside the field it is about, on the same form."""

from collections.abc import Callable
from typing import TypeVar

from django.forms import Form

from tenants.errors import HmiError

Result = TypeVar("Result")


def attempt(form: Form, write: Callable[[], Result]) -> Result | None:
    """Run a write. A typed refusal becomes an error of the form (on its field when it names one) and None."""
    try:
        return write()
    except HmiError as refusal:
        form.add_error(refusal.param if refusal.param in form.fields else None, refusal.message)
        return None
