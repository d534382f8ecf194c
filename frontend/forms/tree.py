"""Forms that grow the version tree. Selectors say what they offer, so nothing foreign can be chosen."""

from typing import Any

from django import forms

from frontend.forms.base import Need, PickField, PickForm, slug_field
from frontend.presenters.data import task_of
from frontend.presenters.versions import parent_name
from tenants.accounts.models import Tenant
from tenants.datasets.models import Corpus, Dataset
from tenants.datasets.selectors.uploads import datasets_of
from versiontree.jobs.models import JobKind
from versiontree.transfer.archive.manifest import MAX_LENGTHS
from versiontree.tree.models import Hplm
from versiontree.tree.models.hplm import DEFAULT_ALIAS
from versiontree.tree.models.version import VersionState
from versiontree.tree.selectors.versions import corpora_usable_by, parents_ready_for, versions_of
from versiontree.tree.training_fields import INHERITED_LABEL, TrainingSettingsForm
from versiontree.tree.training_settings import DEFAULT_ALPHA

NO_CORPUS = Need("You have no corpus yet.", "frontend:corpus_new", "Upload a corpus")


NO_DATASET = Need("You have no dataset for this task yet.", "frontend:dataset_new", "Upload a dataset")


NO_PARENT = Need("No root is ready yet. Ask your administrator to register one.")


class KnobForm(TrainingSettingsForm, PickForm):
    """A form that folds away the settings of the training it starts."""

    more_label = "Training settings"


class TextForm(KnobForm):
    """The text a domain learns from, and how much of it its table keeps."""

    kind = JobKind.FURTHER_PRETRAIN
    builds_plot = True
    plot_empty_label = "Same as the previous version"

    corpus = PickField(label="Corpus", help_text="The text to train the domain on.", need=NO_CORPUS)
    alpha = forms.FloatField(
        label="Coverage α (%)",
        min_value=0,
        max_value=100,
        initial=DEFAULT_ALPHA,
        help_text="The share of fragment occurrences in the corpus that the lookup table covers. "
        "50% takes less than 1% of the distinct fragments.",
    )

    def __init__(self, tenant: Tenant, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        own_first = corpora_usable_by(tenant).order_by("tenant", "-created_at", "-pk")
        self.offer_found("corpus", own_first, _corpus_described)


class DomainForm(TextForm):
    """A new domain."""

    plot_empty_label = ""

    name = slug_field()
    description = forms.CharField(
        label="Description", required=False, max_length=500, widget=forms.Textarea({"rows": 2})
    )
    parent = PickField(label="Parent", help_text="A root, or a domain to specialise.", need=NO_PARENT)

    field_order = ("name", "description", "parent", "corpus", "alpha")

    def __init__(self, tenant: Tenant, *args: Any, **kwargs: Any) -> None:
        super().__init__(tenant, *args, **kwargs)
        offer_parents(self, tenant)


class DataForm(KnobForm):
    """The dataset that a model learns from."""

    kind = JobKind.FINE_TUNE
    dataset = PickField(label="Dataset", need=NO_DATASET)

    def __init__(self, tenant: Tenant, *args: Any, task: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        datasets = datasets_of(tenant).filter(task=task) if task else datasets_of(tenant)
        self.offer_found("dataset", datasets, _dataset_described)


class HplmUpdateForm(DataForm):
    """A further version of a model."""

    empty_label = INHERITED_LABEL

    auto_promote = forms.BooleanField(
        label="Move @default to this version when it is ready", required=False, initial=True
    )


class AliasForm(PickForm):
    """Where an alias shall point, and why."""

    name = slug_field("Alias")
    version = PickField(label="Version")
    reason = forms.CharField(label="Reason", max_length=200)

    def __init__(self, hplm: Hplm, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["name"].initial = DEFAULT_ALIAS
        self.fields["name"].help_text = "default, or another name such as production."
        ready = versions_of(hplm).filter(state=VersionState.READY)
        self.pick("version").offer((version, f"v{version.number}") for version in ready)


def offer_parents(form: PickForm, tenant: Tenant) -> None:
    """Let the form's field `parent` choose among the versions that the tenant can build upon."""
    names = ("root__name", "domain__name")
    form.offer_found("parent", parents_ready_for(tenant), parent_name, named=names)


def _corpus_described(corpus: Corpus) -> str:
    return f"{corpus.name} ({corpus.words:,} words{'' if corpus.tenant_id else ', platform'})"


def _dataset_described(dataset: Dataset) -> str:
    rows = sum(split.rows for split in dataset.splits.all())
    return f"{dataset.name} ({task_of(dataset).lower()}, {rows:,} rows)"


class AboutForm(forms.Form):
    """What it is for, and how it may be used."""

    description = forms.CharField(
        label="Description",
        required=False,
        max_length=MAX_LENGTHS["description"],
        widget=forms.Textarea({"rows": 4}),
        help_text="Purpose, training data and known limitations.",
    )
    license = forms.CharField(label="Licence", required=False, max_length=MAX_LENGTHS["license"])
