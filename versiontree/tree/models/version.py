"""A version: an immutable node of the tree."""

from typing import Final

from django.conf import settings
from django.db import models
from django.db.models import Q
from tree_queries.fields import TreeNodeForeignKey

from tenants.base.managers import TenantScopedManager
from versiontree.tree.models.domain import Domain, Root
from versiontree.tree.models.hplm import Hplm
from versiontree.tree.root_kind import RootKind


class VersionKind(models.TextChoices):
    """What this is a version of."""

    ROOT = "root", "Root"
    DOMAIN = "domain", "Domain"
    HPLM = "model", "Model"

    @property
    def owner_field(self) -> str:
        """The foreign key of ``Version`` that holds the owner. Also the owner's model name."""
        return "hplm" if self is VersionKind.HPLM else str(self.value)


class VersionState(models.TextChoices):
    """The states of a version."""

    BUILDING = "building", "Training"
    READY = "ready", "Ready"
    FAILED = "failed", "Failed"
    RETIRED = "retired", "Retired"


LEGAL_VERSION_TRANSITIONS: Final[dict[VersionState, frozenset[VersionState]]] = {
    VersionState.BUILDING: frozenset({VersionState.READY, VersionState.FAILED}),
    VersionState.FAILED: frozenset({VersionState.BUILDING}),
    VersionState.READY: frozenset({VersionState.RETIRED}),
    VersionState.RETIRED: frozenset(),
}


class VersionPolicy(models.TextChoices):
    """The levels at which requests to a version of a model are answered, unless a request chooses.

    The same values as `inference.cascade.dispatcher.AnswerPolicy`, and none.
    """

    NONE = "", "Default of this installation"
    TABLE = "table", "From the lookup tables"
    FULL = "full", "Computed in full"
    CASCADE = "cascade", "Cascade"


VERSION_STATE_COLOURS: Final[dict[VersionState, str]] = {
    VersionState.BUILDING: "info",
    VersionState.READY: "success",
    VersionState.FAILED: "danger",
    VersionState.RETIRED: "neutral",
}

REQUIRED_ROLES: Final[dict[RootKind, dict[VersionKind, frozenset[str]]]] = {
    RootKind.ENCODER: {
        VersionKind.ROOT: frozenset({"root", "lower", "plot"}),
        VersionKind.DOMAIN: frozenset({"lower", "plot"}),
        VersionKind.HPLM: frozenset({"hplm"}),
    },
    RootKind.DECODER: {VersionKind.ROOT: frozenset({"root"}), VersionKind.HPLM: frozenset({"hplm"})},
}
"""The artifacts of a ready version, by the kind of its root. A decoder has no tables, so no domains."""
OPTIONAL_ROLES: Final[dict[RootKind, dict[VersionKind, frozenset[str]]]] = {
    RootKind.ENCODER: {VersionKind.HPLM: frozenset({"cascade"})},
    RootKind.DECODER: {},
}
MAIN_ROLE: Final[dict[VersionKind, str]] = {
    VersionKind.ROOT: "root",
    VersionKind.DOMAIN: "plot",
    VersionKind.HPLM: "hplm",
}


CONVERT: Final = "convert"
"""The key in the config of an encoder root's version that is False if it was not converted."""
UNCONVERTED: Final = Q(config__contains={CONVERT: False})


class Version(models.Model):
    """One node of the version tree. Created once, never overwritten; only its ``policy`` can be changed.

    ``building -> ready -> retired``, and ``building <-> failed`` while its jobs fail and are retried.
    ``digest`` is that of the main artifact of a ready version. ``corpus`` or ``dataset`` is the training
    data. Triggers refuse changes of parent, root, owner and number. They refuse a generative model below an
    encoder root, any other model and a domain below a decoder root, and a policy below a decoder root.
    """

    Kind = VersionKind
    State = VersionState

    parent = TreeNodeForeignKey(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="children"
    )
    kind = models.CharField(max_length=8, choices=VersionKind.choices)
    root = models.ForeignKey(Root, on_delete=models.PROTECT, related_name="versions")
    domain = models.ForeignKey(
        Domain, null=True, blank=True, on_delete=models.PROTECT, related_name="versions"
    )
    hplm = models.ForeignKey(
        Hplm, null=True, blank=True, on_delete=models.PROTECT, related_name="versions", verbose_name="model"
    )
    tenant = models.ForeignKey(
        "accounts.Tenant", null=True, blank=True, on_delete=models.PROTECT, related_name="versions"
    )
    number = models.PositiveIntegerField()
    state = models.CharField(max_length=8, choices=VersionState.choices, default=VersionState.BUILDING)
    digest = models.CharField(max_length=64, blank=True, default="")
    corpus = models.ForeignKey(
        "datasets.Corpus", null=True, blank=True, on_delete=models.PROTECT, related_name="versions"
    )
    dataset = models.ForeignKey(
        "datasets.Dataset", null=True, blank=True, on_delete=models.PROTECT, related_name="versions"
    )
    config = models.JSONField(default=dict, blank=True)
    metrics = models.JSONField(default=dict, blank=True)
    policy = models.CharField(
        max_length=8,
        choices=VersionPolicy.choices,
        blank=True,
        default=VersionPolicy.NONE,
        db_default=VersionPolicy.NONE,
        help_text="Used for requests that set no quality.",
    )
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    ready_at = models.DateTimeField(null=True, blank=True)

    unscoped = models.Manager()
    objects = TenantScopedManager(shares_platform_rows=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(kind="root", domain__isnull=True, hplm__isnull=True)
                | Q(kind="domain", domain__isnull=False, hplm__isnull=True)
                | Q(kind="model", domain__isnull=True, hplm__isnull=False),
                name="version_is_of_one_thing",
                violation_error_message="A version belongs to one root, domain or model.",
            ),
            models.CheckConstraint(
                condition=Q(parent__isnull=False) | Q(kind="root"),
                name="version_has_a_parent",
                violation_error_message="A version needs a parent, unless it is one of a root.",
            ),
            models.CheckConstraint(
                condition=Q(number__gte=1),
                name="version_number_starts_at_one",
                violation_error_message="Version numbers start at 1.",
            ),
            models.CheckConstraint(
                condition=Q(state__in=VersionState.values),
                name="version_state_is_known",
                violation_error_message="The state of the version is unknown.",
            ),
            models.CheckConstraint(
                condition=Q(
                    state__in=["ready", "retired"], digest__regex="^[0-9a-f]{64}$", ready_at__isnull=False
                )
                | Q(state__in=["building", "failed"], digest="", ready_at__isnull=True),
                name="version_digest_when_ready",
                violation_error_message="A version has a digest exactly when it is ready or retired.",
            ),
            models.CheckConstraint(
                condition=Q(policy="") | Q(kind="model", policy__in=VersionPolicy.values),
                name="version_policy_of_a_model",
                violation_error_message="Only versions of models have a quality.",
            ),
            models.UniqueConstraint(
                fields=["root", "number"],
                condition=Q(kind="root"),
                name="version_number_per_root",
                violation_error_message="There is already a version of this number.",
            ),
            models.UniqueConstraint(
                fields=["domain", "number"],
                name="version_number_per_domain",
                violation_error_message="There is already a version of this number.",
            ),
            models.UniqueConstraint(
                fields=["hplm", "number"],
                name="version_number_per_hplm",
                violation_error_message="There is already a version of this number.",
            ),
        ]
        indexes = [
            models.Index(fields=["state", "kind"], name="version_state_kind"),
            # Covering: queries for all versions of a tenant, and row security policies, skip the table.
            models.Index(fields=["tenant", "id"], include=["hplm"], name="version_of_tenant"),
        ]

    def __str__(self) -> str:
        return f"{self.owner}:{self.number}"

    @property
    def owner(self) -> Root | Domain | Hplm:
        """The root, domain or model that owns this version."""
        return self.hplm or self.domain or self.root

    @property
    def name(self) -> str:
        """The owner's name."""
        return self.owner.name

    @property
    def in_words(self) -> str:
        """For messages: "Version 2 of the domain medicine"."""
        return f"Version {self.number} of the {self.kind} {self.name}"

    @property
    def is_unconverted(self) -> bool:
        """Whether it is a version of an encoder root that is served as it is: without local lower layers and
        tables, so that texts are computed in full."""
        return self.config.get(CONVERT) is False

    @property
    def required_roles(self) -> frozenset[str]:
        """The roles of the artifacts that it has once it is ready."""
        if self.is_unconverted:
            return frozenset({VersionKind.ROOT})
        return REQUIRED_ROLES[RootKind(self.root.kind)][VersionKind(self.kind)]

    @property
    def is_quick(self) -> bool:
        """Whether it is the quick version of a new model: a head on the frozen root, which answers until the
        trained version is ready."""
        return self.config.get("quick") is True

    def domain_or_root(self) -> "Version":
        """This version if it is a domain's or a root's, else its nearest ancestor that is: the start of its
        PLOT chain."""
        node = self
        while node.kind == VersionKind.HPLM and node.parent is not None:
            node = node.parent
        return node
