"""Infer requests of tenants added up: by model, key and day; by key and day; by model and month."""

from django.db import models

from tenants.base.managers import TenantScopedManager


class UsageDay(models.Model):
    """One day (UTC) of one model's name, asked by one key. The row stays when the model is deleted.

    A new model that takes a freed name goes on in the row of that day. Of a tenant that was deleted one row a
    day stays, without names.
    """

    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.PROTECT, related_name="usage_days")
    model_name = models.CharField(
        "model",
        max_length=100,
        help_text="A new model that takes the name of a deleted one goes on in its row of that day.",
    )
    key_prefix = models.CharField(
        "key",
        max_length=8,
        blank=True,
        default="",
        db_default="",
        help_text="The beginning of the API key that asked; empty for the browser.",
    )
    day = models.DateField()
    requests = models.PositiveBigIntegerField(default=0)
    inputs = models.PositiveBigIntegerField(default=0)
    tokens = models.PositiveBigIntegerField(default=0)
    failed = models.PositiveBigIntegerField(default=0, help_text="Requests that ended in an error.")
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
            ),
            models.CheckConstraint(
                condition=models.Q(failed__lte=models.F("requests")), name="usage_failed_within_requests"
            ),
        )

    def __str__(self) -> str:
        return f"{self.tenant}/{self.model_name} on {self.day}"


class UsageSum(models.Model):
    """One day (UTC) of one key: the sums of its rows in `UsageDay`, of which a tenant may have a hundred
    thousand.

    Nobody writes here but a trigger on that table, in the statement that changes it, so the sums are always
    those of the rows.
    """

    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.PROTECT, related_name="usage_sums")
    key_prefix = models.CharField("key", max_length=8, blank=True, default="", db_default="")
    day = models.DateField()
    requests = models.BigIntegerField(default=0)
    inputs = models.BigIntegerField(default=0)
    tokens = models.BigIntegerField(default=0)
    failed = models.BigIntegerField(default=0)
    busy_ms = models.FloatField("machine time", default=0.0)

    unscoped = models.Manager()
    objects = TenantScopedManager()

    class Meta:
        ordering = ("-day", "key_prefix")
        constraints = (
            models.UniqueConstraint(
                fields=("tenant", "day", "key_prefix"), name="one_usage_sum_per_tenant_day_and_key"
            ),
        )

    def __str__(self) -> str:
        return f"{self.tenant} on {self.day}"


class UsageMonth(models.Model):
    """One month (UTC) of one model's name, by its first day: the sums of its rows in `UsageDay`, all keys
    together. Kept as those of `UsageSum` are.
    """

    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.PROTECT, related_name="usage_months")
    model_name = models.CharField("model", max_length=100)
    month = models.DateField()
    requests = models.BigIntegerField(default=0)
    inputs = models.BigIntegerField(default=0)
    tokens = models.BigIntegerField(default=0)
    failed = models.BigIntegerField(default=0)
    busy_ms = models.FloatField("machine time", default=0.0)

    unscoped = models.Manager()
    objects = TenantScopedManager()

    class Meta:
        ordering = ("-month", "model_name")
        constraints = (
            models.UniqueConstraint(
                fields=("tenant", "month", "model_name"), name="one_usage_month_per_tenant_month_and_model"
            ),
        )
        indexes = (
            # The busiest of a month are read off it, however many others there are.
            models.Index(fields=("tenant", "month", "-requests", "model_name"), name="usage_month_busiest"),
        )

    def __str__(self) -> str:
        return f"{self.tenant}/{self.model_name} in {self.month:%Y-%m}"
