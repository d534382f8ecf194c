"""What a client asks for when it creates a fine-tuning job, in the words of the OpenAI conventions."""

from collections.abc import Mapping
from typing import Any, Final

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from inference.openai.serializers import MetadataField
from tenants.base.api.inputs import StrictSerializer
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.api.serializers import ColumnsField
from tenants.datasets.formats.row_parser import DEFAULT_SEPARATOR
from tenants.datasets.models import Task
from versiontree.jobs.models import JobKind
from versiontree.tree.training_settings import SETTING_SPECS, SettingValue, settings_check

AUTO: Final = "auto"
SUPERVISED: Final = "supervised"
HYPERPARAMETERS: Final = ("n_epochs", "batch_size", "learning_rate_multiplier")


@extend_schema_field({"oneOf": [{"const": AUTO}, {"type": "number"}]})
class AutoField(serializers.Field[Any, Any, Any, Any]):
    """A number, or that the training chooses."""

    def __init__(self, *, whole: bool) -> None:
        super().__init__(required=False, default=AUTO)
        self.whole = whole

    def to_internal_value(self, data: Any) -> Any:
        """The number, or `auto`."""
        kinds = (int,) if self.whole else (int, float)
        if data == AUTO or (isinstance(data, kinds) and not isinstance(data, bool) and 0 < data < 10**6):
            return data
        raise serializers.ValidationError(f"This is {AUTO!r} or a {'whole ' * self.whole}number above 0.")

    def to_representation(self, value: Any) -> Any:
        """As it was."""
        return value


class HyperparametersSerializer(StrictSerializer):
    """How it is trained."""

    n_epochs = AutoField(whole=True)
    batch_size = AutoField(whole=True)
    learning_rate_multiplier = AutoField(whole=False)


class SupervisedSerializer(StrictSerializer):
    """Of the method that there is."""

    hyperparameters = HyperparametersSerializer(required=False)


class MethodSerializer(StrictSerializer):
    """Learning from examples is the one method."""

    type = serializers.ChoiceField([SUPERVISED])
    supervised = SupervisedSerializer(required=False)


class HmiOptionsSerializer(StrictSerializer):
    """What the product takes besides."""

    task = serializers.ChoiceField(Task.choices, required=False)
    columns = ColumnsField(required=False)
    separator = serializers.CharField(required=False, default=DEFAULT_SEPARATOR)
    allow_leaks = serializers.BooleanField(required=False, default=False)
    settings = serializers.DictField(required=False, help_text="Those of POST models; they go before.")


class FineTuningRequestSerializer(StrictSerializer):
    """A fine-tuning job to be."""

    model = serializers.CharField(max_length=200, help_text="root, root/domain, tenant/domain or a model.")
    training_file = serializers.CharField(max_length=100)
    validation_file = serializers.CharField(max_length=100, required=False, allow_null=True)
    suffix = serializers.CharField(
        max_length=63, required=False, allow_null=True, help_text="What the new model is called."
    )
    seed = serializers.IntegerField(required=False, allow_null=True, min_value=0, max_value=2**31 - 1)
    hyperparameters = HyperparametersSerializer(required=False)
    method = MethodSerializer(required=False)
    metadata = MetadataField()
    integrations = serializers.ListField(required=False, allow_null=True, help_text="There are none.")
    hmi = HmiOptionsSerializer(required=False)

    def validate_integrations(self, given: list[Any] | None) -> list[Any] | None:
        """None of theirs is here."""
        if given:
            raise serializers.ValidationError("No integrations are known here.")
        return given


def hyperparameters_of(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the method, else those that stand for themselves."""
    method = asked.get("method", {}).get(SUPERVISED, {}).get("hyperparameters")
    given = method or asked.get("hyperparameters") or {}
    return {name: given.get(name, AUTO) for name in HYPERPARAMETERS}


def settings_of(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the training that this stands for. A number of epochs is kept to exactly. Raises
    `invalid_field`."""
    knobs, chosen = SETTING_SPECS[JobKind.FINE_TUNE], hyperparameters_of(asked)
    settings: dict[str, SettingValue] = {}
    if (epochs := chosen["n_epochs"]) != AUTO:
        settings["epochs"] = knobs["epochs"].validate(epochs, "hyperparameters.n_epochs")
    if (batch := chosen["batch_size"]) != AUTO:
        settings["batch_size"] = knobs["batch_size"].validate(batch, "hyperparameters.batch_size")
    if (factor := chosen["learning_rate_multiplier"]) != AUTO:
        rate, usual = knobs["learning_rate"], float(knobs["learning_rate"].default or 0)
        settings["learning_rate"] = _rate(rate.min_value / usual, rate.max_value / usual, factor) * usual
    if asked.get("seed") is not None:
        settings["seed"] = asked["seed"]
    return settings | _own_settings(asked.get("hmi", {}).get("settings"))


def _own_settings(given: Mapping[str, Any] | None) -> dict[str, SettingValue]:
    try:
        return settings_check(JobKind.FINE_TUNE, given)
    except HmiError as error:
        error.param = f"hmi.{error.param}"
        raise


def _rate(least: float, most: float, factor: float) -> float:
    if not least <= factor <= most:
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            f"This is a number from {least:g} to {most:g}.",
            param="hyperparameters.learning_rate_multiplier",
        )
    return factor
