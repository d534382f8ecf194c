"""Forms for domains, models and aliases. They offer only rows that the tenant may use."""

from typing import Any, Final, cast

from django import forms

from frontend.forms.base import MissingObject, RowChoiceField, RowChoiceForm, slug_field
from frontend.presenters.data import task_of
from frontend.presenters.requests import LEVEL_LABELS
from frontend.presenters.versions import parent_name
from tenants.accounts.models import Tenant
from tenants.base.plurals import counted
from tenants.datasets.models import Corpus, Dataset
from tenants.datasets.selectors.uploads import datasets_of
from versiontree.jobs.models import JobKind
from versiontree.transfer.archive.manifest import MAX_LENGTHS
from versiontree.tree.models import Hplm, RootKind
from versiontree.tree.models.hplm import DEFAULT_ALIAS, MAX_CANARY_PERCENT
from versiontree.tree.models.version import VersionState
from versiontree.tree.selectors.versions import (
    aliases_of,
    corpora_usable_by,
    parents_ready_for,
    versions_of,
)
from versiontree.tree.training_fields import INHERITED_LABEL, TrainingSettingsForm

NO_CORPUS = MissingObject("You have no corpus yet.", "frontend:corpus_new", "Upload a corpus")
NO_DATASET = MissingObject(
    "You have no dataset for this task yet.", "frontend:dataset_new", "Upload a dataset"
)
USUAL_ALIASES: Final = ("production", "staging")
"""Names that are offered for a new alias."""
NO_PARENT = MissingObject("No root is ready yet. Ask your administrator to register one.")


class TrainingForm(TrainingSettingsForm, RowChoiceForm):
    """A form that starts a training. Its training settings are folded."""

    more_label = "Training settings"


class DomainUpdateForm(TrainingForm):
    """The corpus of a new version of a domain, and the size of its lookup table."""

    kind = JobKind.FURTHER_PRETRAIN
    builds_plot = True
    plot_empty_label = "Same as the previous version"

    corpus = RowChoiceField(label="Corpus", help_text="The text to train the domain on.", missing=NO_CORPUS)

    def __init__(self, tenant: Tenant, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        own_first = corpora_usable_by(tenant).order_by("tenant", "-created_at", "-pk")
        self.offer_rows("corpus", own_first, _corpus_label)


class DomainForm(DomainUpdateForm):
    """A new domain."""

    plot_empty_label = ""

    name = slug_field(is_final=True)
    description = forms.CharField(
        label="Description", required=False, max_length=500, widget=forms.Textarea({"rows": 2})
    )
    parent = RowChoiceField(
        label="Base model", help_text="A root or a domain to build on.", missing=NO_PARENT
    )

    field_order = ("name", "description", "parent", "corpus")

    def __init__(self, tenant: Tenant, *args: Any, **kwargs: Any) -> None:
        super().__init__(tenant, *args, **kwargs)
        offer_parents(self, tenant)


class ModelUpdateForm(TrainingForm):
    """A new version of a model."""

    kind = JobKind.FINE_TUNE
    empty_label = INHERITED_LABEL

    dataset = RowChoiceField(label="Dataset", missing=NO_DATASET)
    auto_promote = forms.BooleanField(
        label="Move @default to this version when it is ready", required=False, initial=True
    )

    def __init__(self, tenant: Tenant, *args: Any, task: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        datasets = datasets_of(tenant).filter(task=task) if task else datasets_of(tenant)
        self.offer_rows("dataset", datasets, _dataset_label)


class AliasForm(RowChoiceForm):
    """The new version of an alias, and the reason. Usual names are offered beside those that exist."""

    name = forms.ChoiceField(label="Alias", required=False)
    new_name = slug_field("Another name")
    version = RowChoiceField(label="Version")
    reason = forms.CharField(label="Reason", max_length=200)

    def __init__(self, hplm: Hplm, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        existing = [alias.name for alias in hplm.aliases.all()]
        names = dict.fromkeys([DEFAULT_ALIAS, *existing, *USUAL_ALIASES])
        offered = [(name, f"@{name}" if name in existing else f"@{name} (new)") for name in names]
        cast("forms.ChoiceField", self.fields["name"]).choices = [*offered, ("", "another name")]
        self.fields["new_name"].required = False
        self.fields["new_name"].help_text = "Only for an alias that is not in the list."
        ready = versions_of(hplm).filter(state=VersionState.READY)
        self.row_field("version").offer((version, f"v{version.number}") for version in ready)

    def clean(self) -> dict[str, Any]:
        """Take the other name if it is given. Without any name the list has the error."""
        cleaned = super().clean() or {}
        cleaned["name"] = cleaned.get("new_name") or cleaned.get("name", "")
        if not cleaned["name"] and not self.errors:
            self.add_error("name", "Choose an alias, or enter another name.")
        return cleaned


class RollbackForm(forms.Form):
    """The number of the version to roll back from, and the reason."""

    version = forms.IntegerField(min_value=1)
    reason = forms.CharField(max_length=200)


class VersionPolicyForm(forms.Form):
    """The policy of a version of a model."""

    policy = forms.ChoiceField(
        label="Policy",
        choices=[("", "Default of this installation"), *LEVEL_LABELS.items()],
        required=False,
        help_text="Requests that set a quality or a target override it. Changes apply within a second.",
    )


class CanaryForm(RowChoiceForm):
    """A second version for a share of the requests to an alias."""

    alias = forms.ChoiceField(label="Alias")
    version = RowChoiceField(label="Version")
    percent = forms.IntegerField(
        label="Share of the requests (%)", min_value=1, max_value=MAX_CANARY_PERCENT, initial=5
    )

    def __init__(self, hplm: Hplm, data: Any = None) -> None:
        super().__init__(data, auto_id="id_canary_%s")
        names = [alias.name for alias in aliases_of(hplm)]
        names.sort(key=lambda name: name != DEFAULT_ALIAS)
        cast("forms.ChoiceField", self.fields["alias"]).choices = [(name, f"@{name}") for name in names]
        ready = versions_of(hplm).filter(state=VersionState.READY)
        self.row_field("version").offer((version, f"v{version.number}") for version in ready)


def offer_parents(form: RowChoiceForm, tenant: Tenant, *, decoders: bool = False) -> None:
    """Offer the versions that the tenant can use as parent in the field `parent`; with `decoders` also
    those of decoder roots."""
    rows = parents_ready_for(tenant)
    if decoders:
        rows |= parents_ready_for(tenant, root=RootKind.DECODER)
    form.offer_rows("parent", rows, parent_name, named=("root__name", "domain__name"))


def _corpus_label(corpus: Corpus) -> str:
    return f"{corpus.name} ({counted(corpus.words, 'word')}{'' if corpus.tenant_id else ', platform'})"


def _dataset_label(dataset: Dataset) -> str:
    rows = sum(split.rows for split in dataset.splits.all())
    return f"{dataset.name} ({task_of(dataset).lower()}, {counted(rows, 'row')})"


class ModelDetailsForm(forms.Form):
    """The description and the license of a model."""

    description = forms.CharField(
        label="Description",
        required=False,
        max_length=MAX_LENGTHS["description"],
        widget=forms.Textarea({"rows": 4}),
        help_text="Purpose, training data and known limitations.",
    )
    license = forms.CharField(label="License", required=False, max_length=MAX_LENGTHS["license"])
