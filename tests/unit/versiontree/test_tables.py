"""The tables beside the models."""

from hypothesis import given
from hypothesis import strategies as st

from inference.decoder.architecture import PROJECTIONS
from inference.text.tasks import ENCODER_TASKS, TASKS
from inference.text.tasks import GENERATIVE_TASKS as WORKERS_GENERATIVE_TASKS
from inference.text.tasks import QUICK_TASKS as WORKERS_QUICK_TASKS
from tenants.base.errors import HmiError
from tenants.datasets.models import DATASET_TASKS, GENERATIVE_TASKS, Task
from versiontree.job_settings import LORA_PROJECTIONS
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
from versiontree.tree.services.hplms import QUICK_TASKS
from versiontree.tree.training_settings import (
    SETTINGS_CLASSES,
    setting_specs,
    setting_validate,
    settings_check,
)


def test_every_state_has_its_place_in_every_table() -> None:
    assert set(LEGAL_TRANSITIONS) == set(JobState) == ACTIVE | TERMINAL == set(JOB_STATE_COLOURS)
    assert not ACTIVE & TERMINAL
    assert set(LEGAL_VERSION_TRANSITIONS) == set(VersionState) == set(VERSION_STATE_COLOURS)
    assert set(MAIN_ROLE) == set(REQUIRED_ROLES[RootKind.ENCODER]) == set(VersionKind)
    for roles in REQUIRED_ROLES.values():
        assert all(MAIN_ROLE[kind] in roles[kind] for kind in roles)


def test_workers_know_the_tasks_of_datasets_and_models() -> None:
    assert {*TASKS, *WORKERS_GENERATIVE_TASKS} == set(DATASET_TASKS)
    assert {*ENCODER_TASKS, *WORKERS_GENERATIVE_TASKS} == set(Task)
    assert set(WORKERS_GENERATIVE_TASKS) == GENERATIVE_TASKS
    assert set(WORKERS_QUICK_TASKS) == QUICK_TASKS


def test_every_state_can_be_reached_and_every_active_one_left() -> None:
    reached = {JobState.WAITING, JobState.QUEUED}.union(*LEGAL_TRANSITIONS.values())
    assert reached == set(JobState)
    assert all(LEGAL_TRANSITIONS[state] for state in ACTIVE)
    assert LEGAL_TRANSITIONS[JobState.SUCCEEDED] == frozenset()


@given(
    st.dictionaries(
        st.sampled_from(sorted(setting_specs(JobKind.FINE_TUNE))),
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
        knob = setting_specs(JobKind.FINE_TUNE)[name]
        assert type(value) is knob.type
        if knob.type is str:
            assert value in knob.choices
        else:
            assert knob.min_value <= float(value) <= knob.max_value


def test_no_settings_are_settings() -> None:
    assert settings_check(JobKind.CONVERT, None) == settings_check(JobKind.CONVERT, {}) == {}


def test_setting_defaults_are_valid_values() -> None:
    for kind, root in SETTINGS_CLASSES:
        for name, spec in setting_specs(kind, root).items():
            if spec.default is not None:
                assert setting_validate(spec, spec.default, name) == spec.default


def test_projections_all_are_those_of_decoders() -> None:
    assert LORA_PROJECTIONS["all"] == PROJECTIONS
