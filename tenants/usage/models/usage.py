"""Usage of tenants, what their models answered, and their quotas."""

from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q

from tenants.base.managers import TenantScopedManager


class UsageDay(models.Model):
    """Infer requests of one day (UTC) by model name and API key.

    Rows are retained when the model is deleted; a new model with its name adds to the same row. For a deleted
    tenant one row a day is retained, without names.
    """

    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.PROTECT, related_name="usage_days")
    model_name = models.CharField(
        "model",
        max_length=100,
        help_text="A new model with the name of a deleted one shares its row of that day.",
    )
    key_prefix = models.CharField(
        "API key",
        max_length=8,
        blank=True,
        default="",
        db_default="",
        help_text="The prefix of the API key; empty for the browser.",
    )
    day = models.DateField()
    requests = models.PositiveBigIntegerField(default=0)
    inputs = models.PositiveBigIntegerField(default=0)
    tokens = models.PositiveBigIntegerField(default=0, help_text="Prompt and generated tokens.")
    generated_tokens = models.PositiveBigIntegerField(default=0, db_default=0)
    failed = models.PositiveBigIntegerField(
        default=0, help_text="Requests without an answer: the server failed, or they were canceled."
    )
    refused = models.PositiveBigIntegerField(
        default=0, db_default=0, help_text="Requests that were turned away. They are not among the requests."
    )
    busy_ms = models.FloatField(
        "machine time",
        default=0.0,
        db_default=0.0,
        help_text="Milliseconds for which inference workers were busy with it.",
    )

    unscoped = models.Manager()
    objects = TenantScopedManager()

    class Meta:
        ordering = ("-day", "model_name", "key_prefix")
        constraints = (
            models.UniqueConstraint(
                fields=("tenant", "day", "model_name", "key_prefix"),
                name="one_usage_row_per_tenant_day_model_and_key",
                violation_error_message="There is already a row for this tenant, day, model and key.",
            ),
            models.CheckConstraint(
                condition=models.Q(failed__lte=models.F("requests")),
                name="usage_failed_within_requests",
                violation_error_message="There cannot be more failed requests than requests.",
            ),
            models.CheckConstraint(
                condition=models.Q(generated_tokens__lte=models.F("tokens")),
                name="usage_generated_within_tokens",
                violation_error_message="There cannot be more generated tokens than tokens.",
            ),
        )

    def __str__(self) -> str:
        return f"{self.tenant}/{self.model_name} on {self.day}"


class UsageSum(models.Model):
    """The sums of `UsageDay` by day (UTC) and API key, for pages of a tenant with very many models.

    `UsageBuffer` adds to both tables in one transaction. ``usage_sums_rebuild`` computes the sums anew after
    rows of `UsageDay` were changed otherwise.
    """

    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.PROTECT, related_name="usage_sums")
    key_prefix = models.CharField("API key", max_length=8, blank=True, default="", db_default="")
    day = models.DateField()
    requests = models.BigIntegerField(default=0)
    inputs = models.BigIntegerField(default=0)
    tokens = models.BigIntegerField(default=0)
    generated_tokens = models.BigIntegerField(default=0)
    failed = models.BigIntegerField(default=0)
    refused = models.BigIntegerField(default=0, db_default=0)
    busy_ms = models.FloatField("machine time", default=0.0)

    unscoped = models.Manager()
    objects = TenantScopedManager()

    class Meta:
        ordering = ("-day", "key_prefix")
        verbose_name_plural = "usage by key"
        constraints = (
            models.UniqueConstraint(
                fields=("tenant", "day", "key_prefix"),
                name="one_usage_sum_per_tenant_day_and_key",
                violation_error_message="There is already a row for this tenant, day and key.",
            ),
        )

    def __str__(self) -> str:
        return f"{self.tenant} on {self.day}"


class AnswerDay(models.Model):
    """Answers of one version of a model on one day (UTC): sums and counts, no texts.

    ``table_texts`` were read at the level TABLE first. ``confidence`` adds up the calibrated probabilities of
    the level that read a text first; it is 0 for a task without them. The version's own cascade decided over
    ``cascade_texts``, and sent ``escalated_texts`` of them on to the level FULL. ``whole``, ``part`` and
    ``unigram`` count the tokens that the tables answered so. Of texts that the level TABLE answered,
    ``checked_texts`` were also computed at the level FULL, with the same answer for ``agreed_texts``.
    ``requests`` are those for predictions, of which ``failed`` ended in an error and count nothing else.
    """

    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.CASCADE, related_name="answer_days")
    model_name = models.CharField("model", max_length=100)
    version = models.PositiveIntegerField()
    day = models.DateField()
    texts = models.PositiveBigIntegerField(default=0)
    table_texts = models.PositiveBigIntegerField(default=0)
    confidence = models.FloatField(default=0.0)
    cascade_texts = models.PositiveBigIntegerField(default=0)
    escalated_texts = models.PositiveBigIntegerField(default=0)
    whole = models.PositiveBigIntegerField("whole fragments", default=0)
    part = models.PositiveBigIntegerField("shorter parts", default=0)
    unigram = models.PositiveBigIntegerField("single tokens", default=0)
    checked_texts = models.PositiveBigIntegerField(default=0)
    agreed_texts = models.PositiveBigIntegerField(default=0)
    requests = models.PositiveBigIntegerField(default=0)
    failed = models.PositiveBigIntegerField(default=0)
    drift = models.CharField(
        max_length=300,
        blank=True,
        default="",
        db_default="",
        help_text="Figures outside the range of the dev split; empty if none.",
    )

    unscoped = models.Manager()
    objects = TenantScopedManager()

    class Meta:
        ordering = ("-day", "model_name", "-version")
        verbose_name_plural = "answers by day"
        constraints = (
            models.UniqueConstraint(
                fields=("tenant", "model_name", "version", "day"),
                name="one_answer_row_per_version_and_day",
                violation_error_message="There is already a row for this version and day.",
            ),
            models.CheckConstraint(
                condition=Q(
                    table_texts__lte=models.F("texts"),
                    cascade_texts__lte=models.F("table_texts"),
                    escalated_texts__lte=models.F("cascade_texts"),
                    agreed_texts__lte=models.F("checked_texts"),
                ),
                name="answer_counts_are_within_texts",
                violation_error_message="A count of some texts cannot exceed the count of all texts.",
            ),
            models.CheckConstraint(
                condition=Q(failed__lte=models.F("requests")),
                name="answer_failed_within_requests",
                violation_error_message="There cannot be more failed requests than requests.",
            ),
        )
        indexes = (
            # For the versions with the most texts of a day.
            models.Index(fields=("day", "-texts"), name="answer_day_busiest"),
        )

    def __str__(self) -> str:
        return f"{self.tenant}/{self.model_name}:{self.version} on {self.day}"

    @property
    def mean_confidence(self) -> float | None:
        """The mean calibrated probability of the level that read a text first; None if there is none."""
        return self.confidence / self.texts if self.texts and self.confidence else None

    @property
    def escalated_share(self) -> float | None:
        """The share of texts that the cascade sent on to the level FULL; None if it decided over none."""
        return self.escalated_texts / self.cascade_texts if self.cascade_texts else None

    @property
    def coverage(self) -> tuple[float, float, float] | None:
        """The shares of tokens answered by whole fragments, parts and uni-grams; None of no tokens."""
        tokens = self.whole + self.part + self.unigram
        return (self.whole / tokens, self.part / tokens, self.unigram / tokens) if tokens else None

    @property
    def agreement(self) -> float | None:
        """The share of checked texts with the same answer at both levels; None if none was checked."""
        return self.agreed_texts / self.checked_texts if self.checked_texts else None


GIGABYTE = 1_000_000_000


def rate(
    what: str, default: str = "the limit of the installation"
) -> "models.PositiveIntegerField[int | None, int | None]":
    """A field for a rate limit per minute. Null means the default."""
    return models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text=f"{what} per minute. Empty: {default}.",
    )


class Quota(models.Model):
    """The limits of a tenant. ``quota_lock`` locks this row while rows are counted."""

    tenant = models.OneToOneField("accounts.Tenant", on_delete=models.CASCADE, related_name="quota")
    max_domains = models.PositiveIntegerField(default=3, db_default=3)
    max_models = models.PositiveIntegerField("max models", default=50, db_default=50)
    max_storage_bytes = models.PositiveBigIntegerField(
        default=5 * GIGABYTE,
        db_default=5 * GIGABYTE,
        help_text="Bytes of uploads, and of models and tables.",
    )
    max_requests_per_day = models.PositiveIntegerField(default=1_000_000, db_default=1_000_000)
    max_active_jobs = models.PositiveIntegerField(default=10, db_default=10)
    max_api_keys = models.PositiveIntegerField(
        "max API keys", default=100, db_default=100, help_text="Active keys: neither revoked nor expired."
    )
    max_invitations_per_day = models.PositiveIntegerField(
        default=50, db_default=50, help_text="Invitation links, including resent ones."
    )
    requests_per_minute = rate("Infer requests")
    tokens_per_minute = rate("Tokens of infer requests")
    manage_per_minute = rate("Requests to the manage API")

    unscoped = models.Manager()
    objects = TenantScopedManager()

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=Q(requests_per_minute__gt=0, tokens_per_minute__gt=0, manage_per_minute__gt=0),
                name="quota_rates_are_above_0",
                violation_error_message="Rate limits must be above 0.",
            ),
        )

    def __str__(self) -> str:
        return f"quota of {self.tenant}"
