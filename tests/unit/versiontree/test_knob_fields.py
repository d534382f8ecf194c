"""Every knob has a field, with its own bounds or words."""

import pytest
from django import forms

from versiontree.jobs.models import JobKind
from versiontree.tree.training_fields import LABELS, PET, knob_fields, knobs_chosen
from versiontree.tree.training_settings import KNOBS

ALL = [(kind, name) for kind, knobs in KNOBS.items() for name in knobs]


@pytest.mark.parametrize(("kind", "name"), ALL)
def test_a_knob_has_a_field_that_may_stay_empty(kind: JobKind, name: str) -> None:
    field, knob = knob_fields(kind)[name], KNOBS[kind][name]
    assert (field.required, field.help_text) == (False, knob.help)
    assert knobs_chosen({name: field.clean("")}, kind) == {}
    if isinstance(field, forms.FloatField | forms.IntegerField):
        assert (field.min_value, field.max_value) == (knob.least, knob.most)


def test_what_is_named_is_a_knob() -> None:
    known = {name for _, name in ALL}
    assert {*LABELS, *PET} <= known


def test_answers_come_in_the_knobs_own_type() -> None:
    asked = {"biases": "false", "norms": "true", "lora": "0", "pooling": "cls", "dropout": "0.2"}
    fields = knob_fields(JobKind.FINE_TUNE)
    chosen = knobs_chosen(
        {name: fields[name].clean(value) for name, value in asked.items()}, JobKind.FINE_TUNE
    )
    assert chosen == {"biases": False, "norms": True, "lora": 0, "pooling": "cls", "dropout": 0.2}
    assert type(chosen["lora"]) is int


def test_what_happens_by_itself_is_said() -> None:
    def empty(kind: JobKind, name: str, otherwise: str = "") -> str:
        field = knob_fields(kind, otherwise=otherwise)[name]
        assert isinstance(field.widget, forms.Select)
        return str(next(label for value, label in field.widget.choices if value == ""))

    assert empty(JobKind.FINE_TUNE, "biases") == "As it does by itself (yes)"
    assert empty(JobKind.FINE_TUNE, "balance") == "As it does by itself (no)"
    assert empty(JobKind.BUILD_PLOT, "vectors") == "As it does by itself (float16)"
    assert empty(JobKind.BUILD_PLOT, "vectors", "As before") == "As before"
    tokens = knob_fields(JobKind.CONVERT)["distil_tokens"]
    assert tokens.widget.attrs["placeholder"] == "1100000"
    before = knob_fields(JobKind.FINE_TUNE, otherwise="As before")["lora"]
    assert before.widget.attrs["placeholder"] == "As before"
