"""What a list shows of a tenant's things, and in which order: what the forms above lists share."""

from typing import Any

from django import forms


class ListForm(forms.Form):
    """Words to search for, and whatever else a list is chosen by. None must be filled in; what is none of the
    choices counts as nothing chosen."""

    q = forms.CharField(label="Search by name", required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        attributes = {"placeholder": "Search by name", "autocomplete": "off", "spellcheck": "false"}
        self.fields["q"].widget = forms.TextInput({"type": "search", **attributes})

    def given(self) -> dict[str, Any]:
        """What was filled in, as far as it can be read, by the names of the fields."""
        self.is_valid()
        return {name: self.cleaned_data.get(name, "") for name in self.fields}
