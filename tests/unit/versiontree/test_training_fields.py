"""Every spec has a field, with its own bounds or words."""

import pytest
from django import forms

from versiontree.jobs.models import JobKind
from versiontree.tree.root_kind import RootKind
from versiontree.tree.training_fields import setting_fields, settings_filled
from versiontree.tree.training_settings import setting_specs

ALL = [(root, kind, name) for root in RootKind for kind in JobKind for name in setting_specs(kind, root)]


@pytest.mark.parametrize(("root", "kind", "name"), ALL)
def test_a_knob_has_a_field_that_may_stay_empty(root: RootKind, kind: JobKind, name: str) -> None:
    field, spec = setting_fields(kind, root=root)[name], setting_specs(kind, root)[name]
    assert (field.required, field.help_text) == (False, spec.help)
    assert settings_filled({name: field.clean("")}, kind, root) == {}
    if isinstance(field, forms.FloatField | forms.IntegerField):
        assert (field.min_value, field.max_value) == (spec.min_value, spec.max_value)


def test_answers_come_in_the_knobs_own_type() -> None:
    asked = {"biases": "false", "norms": "true", "lora": "0", "pooling": "cls", "dropout": "0.2"}
    fields = setting_fields(JobKind.FINE_TUNE)
    chosen = settings_filled(
        {name: fields[name].clean(value) for name, value in asked.items()}, JobKind.FINE_TUNE
    )
    assert chosen == {"biases": False, "norms": True, "lora": 0, "pooling": "cls", "dropout": 0.2}
    assert type(chosen["lora"]) is int
