"""Admin forms that call services, and show errors of the services as form errors."""

from typing import Any, Final

from django import forms
from django.db import transaction
from django.db.models import QuerySet
from unfold.widgets import (
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from tenants.base.admin.search_select import SearchSelect
from tenants.datasets.admin.uploads import PLATFORM
from tenants.datasets.models import Corpus, Dataset
from versiontree.jobs.models import JobKind
from versiontree.tree.admin.base import DATASET, ServiceForm, TrainingForm
from versiontree.tree.models import Alias, Domain, Hplm, Root, Version
from versiontree.tree.models.version import UNCONVERTED, VersionKind, VersionState
from versiontree.tree.selectors.bases import base_root_kind
from versiontree.tree.services.aliases import alias_move
from versiontree.tree.services.domains import domain_create, domain_update
from versiontree.tree.services.hplms import hplm_create, hplm_update, version_set_policy
from versiontree.tree.services.licenses import root_set_license
from versiontree.tree.services.root_check import RootCheck, root_check
from versiontree.tree.services.root_retirement import root_set_callable
from versiontree.tree.services.roots import root_register
from versiontree.tree.training_fields import INHERITED_LABEL

CHECK: Final = "_check"
"""The name of the button that checks a checkpoint and registers nothing."""
LICENSE_LABELS: Final = {"license": "License", "source_url": "Source URL"}


def _platform_corpora() -> Any:
    return Corpus.unscoped.filter(tenant=None)


def _ready_parents() -> QuerySet[Version]:
    ready = Version.unscoped.filter(state=VersionState.READY, root__retired_at=None)
    ready = ready.exclude(kind=VersionKind.HPLM).exclude(UNCONVERTED)
    return ready.select_related("root", "domain__root").order_by("root__name", "domain__name", "-number")


def _corpus_field(**more: Any) -> "forms.ModelChoiceField[Corpus]":
    """A field for a corpus of the platform."""

    widget = SearchSelect(Version._meta.get_field("corpus"), owner=PLATFORM)
    return forms.ModelChoiceField(queryset=_platform_corpora(), widget=widget, **more)


class RootForm(TrainingForm):
    """Register a checkpoint as a root, or with ``CHECK`` in its data only check it: the result is ``check``.

    Of the settings, a decoder takes the number of lower layers alone.
    """

    check: RootCheck | None = None

    kind = JobKind.CONVERT
    builds_plot = True

    corpus = _corpus_field(
        required=False,
        help_text="A corpus of the platform. Decoders and roots that are served as they are take none.",
    )
    as_it_is = forms.BooleanField(
        required=False,
        widget=UnfoldBooleanSwitchWidget,
        label="Serve as it is",
        help_text="Ready in seconds, without lookup tables. Its models run in full and cannot be trained.",
    )
    first_model = forms.CharField(
        required=False,
        widget=UnfoldAdminTextInputWidget,
        label="First model",
        help_text="Its name as tenant/model. It uses the checkpoint's task head or embedding modules.",
    )
    pairs = forms.BooleanField(
        required=False,
        widget=UnfoldBooleanSwitchWidget,
        label="Pairs",
        help_text="The first model takes two texts at a time.",
    )
    lower_layers = forms.IntegerField(
        required=False,
        min_value=0,
        widget=UnfoldAdminIntegerFieldWidget,
        help_text="Empty means the preset of an encoder, or a third of the layers of a decoder.",
    )

    class Meta:
        model = Root
        fields = ("name", "kind", "source", "license", "source_url")
        labels = LICENSE_LABELS

    def act(self, actor: Any) -> Version:
        return root_register(**self._root(), actor=actor)

    def dry_run(self) -> None:
        if CHECK in self.data:
            self.check = root_check(**self._root(), actor=None)
        else:
            super().dry_run()

    def is_valid(self) -> bool:
        return super().is_valid() and CHECK not in self.data

    def _root(self) -> dict[str, Any]:
        names = ("name", "kind", "source", "corpus", "license", "source_url", "first_model", "pairs")
        fields = {name: self.cleaned_data[name] for name in names}
        convert = not self.cleaned_data["as_it_is"]
        return {**fields, "convert": convert, "settings": self.settings(), **self.plot_settings()}


class RootSettingsForm(ServiceForm):
    """Set the license and source URL of a root, and whether tenants can call it."""

    class Meta:
        model = Root
        fields = ("license", "source_url", "is_callable")
        labels = LICENSE_LABELS
        widgets = {"is_callable": UnfoldBooleanSwitchWidget}

    @transaction.atomic
    def act(self, actor: Any) -> Root:
        data, root = self.cleaned_data, Root.objects.get(pk=self.instance.pk)
        root_set_callable(root=root, is_callable=data["is_callable"], actor=actor)
        return root_set_license(
            root=root, license=data["license"], source_url=data["source_url"], actor=actor
        )


class DomainForm(TrainingForm):
    """Create a domain of the platform, which tenants see at once or once it is published."""

    kind = JobKind.FURTHER_PRETRAIN
    builds_plot = True

    parent = forms.ModelChoiceField(
        queryset=_ready_parents().filter(tenant=None),
        widget=SearchSelect(Version._meta.get_field("parent"), fit="parents", owner=PLATFORM),
        label="Base model",
        help_text="A ready version of a root or domain.",
    )
    corpus = _corpus_field()
    publish_now = forms.BooleanField(
        required=False,
        initial=True,
        widget=UnfoldBooleanSwitchWidget,
        label="Publish now",
        help_text="Tenants see it once it is ready. Otherwise they see it when you publish it.",
    )

    class Meta:
        model = Domain
        fields = ("name", "description")
        widgets = {"description": UnfoldAdminTextareaWidget({"rows": 3})}

    def act(self, actor: Any) -> Version:
        data = self.cleaned_data
        return domain_create(
            tenant=None,
            parent=data["parent"],
            name=data["name"],
            description=data["description"],
            corpus=data["corpus"],
            settings=self.settings(),
            **self.plot_settings(),
            published=data["publish_now"],
            actor=actor,
        )


class DomainUpdateForm(TrainingForm):
    """Train a domain on more text: saving creates its next version."""

    kind = JobKind.FURTHER_PRETRAIN
    builds_plot = True
    plot_empty_label = INHERITED_LABEL

    corpus = _corpus_field(help_text="A corpus of the platform, or of the domain's tenant.")

    class Meta:
        model = Domain
        fields = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        owner = self.instance.tenant_id
        chosen: Any = self.fields["corpus"]
        chosen.queryset = Corpus.unscoped.filter(tenant=owner) | _platform_corpora()
        chosen.widget.within = {"owner": str(owner or PLATFORM)}

    def act(self, actor: Any) -> Version:
        data = self.cleaned_data
        return domain_update(
            domain=self.instance,
            corpus=data["corpus"],
            settings=self.settings(),
            **self.plot_settings(),
            actor=actor,
        )


class HplmForm(TrainingForm):
    """Create a model of a tenant."""

    kind = JobKind.FINE_TUNE
    chooses_root = True

    parent = forms.ModelChoiceField(
        queryset=_ready_parents(),
        widget=SearchSelect(Version._meta.get_field("parent"), fit="parents"),
        label="Base model",
        help_text="A ready version of a root or domain, of the platform or the tenant.",
    )
    chosen_dataset = forms.ModelChoiceField(
        label="Dataset",
        queryset=Dataset.unscoped.select_related("tenant"),
        widget=SearchSelect(Version._meta.get_field("dataset")),
        help_text="A dataset of the tenant. The model gets its task.",
    )
    quick = forms.BooleanField(
        required=False,
        initial=True,
        widget=UnfoldBooleanSwitchWidget,
        label="Quick version",
        help_text="Version 1 answers within seconds, until version 2 is trained. Some tasks have none.",
    )

    class Meta:
        model = Hplm
        fields = ("tenant", "name", "license")
        labels = LICENSE_LABELS

    def act(self, actor: Any) -> Version:
        data = self.cleaned_data
        return hplm_create(
            tenant=data["tenant"],
            name=data["name"],
            parent=data["parent"],
            dataset=data[DATASET],
            settings=self.settings(),
            license=data["license"],
            quick=data["quick"],
            actor=actor,
        )


class HplmUpdateForm(TrainingForm):
    """Train a model on new data: saving creates its next version."""

    kind = JobKind.FINE_TUNE
    empty_label = INHERITED_LABEL

    chosen_dataset = forms.ModelChoiceField(
        queryset=Dataset.unscoped.none(),
        widget=SearchSelect(Version._meta.get_field("dataset")),
        label="New data",
        help_text="A dataset of the tenant for the same task.",
    )
    auto_promote = forms.BooleanField(
        required=False,
        initial=True,
        widget=UnfoldBooleanSwitchWidget,
        label="Promote",
        help_text="Requests go to the new version once it is ready, unless it is worse.",
    )

    class Meta:
        model = Hplm
        fields = ()

    def __init__(self, *args: Any, instance: Hplm, **kwargs: Any) -> None:
        super().__init__(*args, instance=instance, root=base_root_kind(instance), **kwargs)
        of = {"tenant": self.instance.tenant_id, "task": self.instance.task}
        chosen: Any = self.fields[DATASET]
        chosen.queryset = Dataset.unscoped.filter(**of).select_related("tenant")
        chosen.widget.within = {name: str(value) for name, value in of.items()}

    def act(self, actor: Any) -> Version:
        data = self.cleaned_data
        return hplm_update(
            hplm=self.instance,
            dataset=data[DATASET],
            settings=self.settings(),
            auto_promote=data["auto_promote"],
            actor=actor,
        )


class VersionForm(ServiceForm):
    """Set the policy of a version of a model."""

    class Meta:
        model = Version
        fields = ("policy",)

    def act(self, actor: Any) -> Version:
        return version_set_policy(version=self.instance, policy=self.cleaned_data["policy"], actor=actor)


class AliasForm(ServiceForm):
    """Move an alias to another ready version of its model."""

    version = forms.ModelChoiceField(
        queryset=Version.unscoped.none(), widget=SearchSelect(Alias._meta.get_field("version"))
    )
    reason = forms.CharField(
        max_length=200, widget=UnfoldAdminTextInputWidget, help_text="Shown in the history of the alias."
    )

    class Meta:
        model = Alias
        fields = ("version",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        hplm = self.instance.hplm_id
        chosen: Any = self.fields["version"]
        ready = Version.unscoped.filter(hplm=hplm, state=VersionState.READY)
        chosen.queryset = ready.select_related("hplm__tenant", "root", "domain")
        chosen.widget.within = {"to_serve": str(hplm)}

    def act(self, actor: Any) -> Alias:
        data = self.cleaned_data
        return alias_move(
            hplm=self.instance.hplm,
            name=self.instance.name,
            version=data["version"],
            actor=actor,
            reason=data["reason"],
        )
