"""Every spec has a field, with its own bounds or words."""

import pytest
from django import forms

from versiontree.jobs.models import JobKind
from versiontree.tree.root_kind import RootKind
from versiontree.tree.training_fields import LABELS, PET_SETTINGS, setting_fields, settings_filled
from versiontree.tree.training_settings import setting_specs

ALL = [(root, kind, name) for root in RootKind for kind in JobKind for name in setting_specs(kind, root)]


@pytest.mark.parametrize(("root", "kind", "name"), ALL)
def test_a_knob_has_a_field_that_may_stay_empty(root: RootKind, kind: JobKind, name: str) -> None:
    field, spec = setting_fields(kind, root=root)[name], setting_specs(kind, root)[name]
    assert (field.required, field.help_text) == (False, spec.help)
    assert settings_filled({name: field.clean("")}, kind, root) == {}
    if isinstance(field, forms.FloatField | forms.IntegerField):
        assert (field.min_value, field.max_value) == (spec.min_value, spec.max_value)


def test_what_is_named_is_a_knob() -> None:
    known = {name for *_, name in ALL}
    assert {*LABELS, *PET_SETTINGS} <= known


def test_answers_come_in_the_knobs_own_type() -> None:
    asked = {"biases": "false", "norms": "true", "lora": "0", "pooling": "cls", "dropout": "0.2"}
    fields = setting_fields(JobKind.FINE_TUNE)
    chosen = settings_filled(
        {name: fields[name].clean(value) for name, value in asked.items()}, JobKind.FINE_TUNE
    )
    assert chosen == {"biases": False, "norms": True, "lora": 0, "pooling": "cls", "dropout": 0.2}
    assert type(chosen["lora"]) is int


def test_what_happens_by_itself_is_said() -> None:
    def empty(kind: JobKind, name: str, empty_label: str = "") -> str:
        field = setting_fields(kind, empty_label=empty_label)[name]
        assert isinstance(field.widget, forms.Select)
        return str(next(label for value, label in field.widget.choices if value == ""))

    assert empty(JobKind.FINE_TUNE, "biases") == "Default (yes)"
    assert empty(JobKind.FINE_TUNE, "balance_classes") == "Default (no)"
    assert empty(JobKind.BUILD_PLOT, "vectors") == "Default (float16)"
    assert empty(JobKind.BUILD_PLOT, "vectors", "As before") == "As before"
    tokens = setting_fields(JobKind.CONVERT)["distil_tokens"]
    assert tokens.widget.attrs["placeholder"] == "1100000"
    before = setting_fields(JobKind.FINE_TUNE, empty_label="As before")["lora"]
    assert before.widget.attrs["placeholder"] == "As before"
