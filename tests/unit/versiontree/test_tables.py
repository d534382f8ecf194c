"""The tables beside the models."""

from importlib import import_module

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.decoder.architecture import PROJECTIONS
from inference.text.tasks import GENERATIVE_TASKS as WORKERS_GENERATIVE_TASKS
from inference.text.tasks import TASKS
from tenants.base.errors import HmiError
from tenants.datasets.models import GENERATIVE_TASKS, Task
from versiontree.jobs.models import (
    ACTIVE,
    JOB_STATE_COLOURS,
    LEGAL_TRANSITIONS,
    TERMINAL,
    JobKind,
    JobState,
)
from versiontree.tree.models import RootKind
from versiontree.tree.models.version import (
    LEGAL_VERSION_TRANSITIONS,
    MAIN_ROLE,
    REQUIRED_ROLES,
    VERSION_STATE_COLOURS,
    VersionKind,
    VersionState,
)
from versiontree.tree.services.versions import MIN_TEXTS
from versiontree.tree.training_settings import (
    DEFAULT_EPOCHS,
    LORA_PROJECTIONS,
    SETTING_SPECS,
    setting_specs,
    settings_check,
)
from workers.training.generative.fine_tune import GenerativeSettings


def test_every_state_has_its_place_in_every_table() -> None:
    assert set(LEGAL_TRANSITIONS) == set(JobState) == ACTIVE | TERMINAL == set(JOB_STATE_COLOURS)
    assert not ACTIVE & TERMINAL
    assert set(LEGAL_VERSION_TRANSITIONS) == set(VersionState) == set(VERSION_STATE_COLOURS)
    assert set(SETTING_SPECS) == set(JobKind)
    assert set(MAIN_ROLE) == set(REQUIRED_ROLES[RootKind.ENCODER]) == set(VersionKind)
    for roles in REQUIRED_ROLES.values():
        assert all(MAIN_ROLE[kind] in roles[kind] for kind in roles)


def test_workers_know_the_tasks_of_datasets() -> None:
    assert {*TASKS, *WORKERS_GENERATIVE_TASKS} == set(Task)
    assert set(WORKERS_GENERATIVE_TASKS) == GENERATIVE_TASKS


def test_every_state_can_be_reached_and_every_active_one_left() -> None:
    reached = {JobState.WAITING, JobState.QUEUED}.union(*LEGAL_TRANSITIONS.values())
    assert reached == set(JobState)
    assert all(LEGAL_TRANSITIONS[state] for state in ACTIVE)
    assert LEGAL_TRANSITIONS[JobState.SUCCEEDED] == frozenset()


@given(
    st.dictionaries(
        st.sampled_from(sorted(SETTING_SPECS[JobKind.FINE_TUNE])),
        st.integers() | st.floats() | st.text() | st.booleans() | st.sampled_from(["cls", "cls_mean"]),
    )
)
def test_settings_come_back_within_their_bounds_or_are_refused(settings: dict[str, object]) -> None:
    try:
        checked = settings_check(JobKind.FINE_TUNE, settings)
    except HmiError as error:
        assert str(error.param).removeprefix("settings.") in settings  # noqa: PT017 - either end is fine
        return
    for name, value in checked.items():
        knob = SETTING_SPECS[JobKind.FINE_TUNE][name]
        assert type(value) is knob.type
        if knob.type is str:
            assert value in knob.choices
        else:
            assert knob.min_value <= float(value) <= knob.max_value


def test_no_settings_are_settings() -> None:
    assert settings_check(JobKind.CONVERT, None) == settings_check(JobKind.CONVERT, {}) == {}


def test_jobs_and_those_who_plant_them_ask_for_as_many_texts() -> None:
    assert import_module("workers.training.corpus").MINIMUM_TEXTS == MIN_TEXTS


def test_default_epochs_in_the_settings_help_are_those_of_training() -> None:
    assert import_module("workers.training.search").DEFAULT_EPOCHS == DEFAULT_EPOCHS


def test_every_knob_of_decoders_tells_what_the_training_code_does_by_itself() -> None:
    known, specs = GenerativeSettings(), setting_specs(JobKind.FINE_TUNE, RootKind.DECODER)
    by_itself = {**{name: getattr(known, name) for name in specs}, "projections": "all"}
    assert {name: spec.default for name, spec in specs.items()} == by_itself
    assert (known.projections, LORA_PROJECTIONS["all"]) == (None, PROJECTIONS)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (JobKind.CONVERT, "convert.ConvertSettings"),
        (JobKind.FURTHER_PRETRAIN, "further_pretrain.FurtherPretrainSettings"),
        (JobKind.BUILD_PLOT, "plot_shards.PlotSettings"),
        (JobKind.FINE_TUNE, "fine_tune.FineTuneSettings"),
    ],
)
def test_every_knob_tells_what_the_training_code_does_by_itself(kind: JobKind, settings: str) -> None:
    module, name = settings.split(".")
    known = getattr(import_module(f"workers.training.{module}"), name)()
    assert {knob: bounds.default for knob, bounds in SETTING_SPECS[kind].items()} == {
        knob: getattr(known, knob) for knob in SETTING_SPECS[kind]
    }
    for knob, bounds in SETTING_SPECS[kind].items():
        if bounds.default is not None:
            assert bounds.validate(bounds.default, knob) == bounds.default
