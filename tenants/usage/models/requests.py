"""The request log: single infer requests of a tenant, for a few days."""

from enum import StrEnum
from typing import Final

from django.db import models
from django.db.models import Q

from tenants.base.errors import HTTP_STATUS, ErrorCode
from tenants.base.managers import TenantScopedManager

MAX_MODEL_NAME = 100
MAX_REFERENCE = 200
MAX_PARAM = 100
MAX_MESSAGE = 300


class RequestStatus(StrEnum):
    """How an infer request ended, by the code of its error."""

    ANSWERED = "answered"
    REFUSED = "refused"
    """The request was invalid, not allowed, beyond a limit, or named nothing that can answer."""
    FAILED = "failed"
    """The server gave a good request no answer, or the request was canceled."""

    @classmethod
    def of(cls, code: str) -> "RequestStatus":
        """The status of a request with this error code, which is empty for an answered one."""
        if not code:
            return cls.ANSWERED
        return cls.FAILED if code in FAILED_CODES else cls.REFUSED


FAILED_CODES: Final = frozenset(
    str(code) for code in ErrorCode if HTTP_STATUS[code] >= 500 or code is ErrorCode.CANCELLED
)
"""The codes of requests that failed. All others are those of refused ones."""


class RequestApi(models.TextChoices):
    """The interface that a request came through."""

    INFER = "infer", "Infer API"
    OIP = "oip", "Open Inference Protocol"
    EMBEDDINGS = "embeddings", "Embeddings"
    CHAT = "chat", "Chat completions"
    COMPLETIONS = "completions", "Completions"
    PLAYGROUND = "playground", "Playground"
    BATCH = "batch", "Batch"


class LoggedRequest(models.Model):
    """An infer request, and how it ended. Of batches only lines without an answer.

    An answered request has no ``error_code``. ``model_name`` is that of the version that was asked, or what a
    refused request asked for, as far as it can be shown; ``reference`` is the model as the request wrote it.
    ``param`` and ``message`` are those of the error, without values of the request. ``details`` has
    ``levels`` (texts by the level that answered them) and ``timings_ms``. ``texts`` is None unless the tenant
    keeps them.
    """

    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.CASCADE, related_name="logged_requests")
    at = models.DateTimeField(help_text="When it was answered.")
    request_id = models.CharField(max_length=80)
    api = models.CharField("API", max_length=16, choices=RequestApi.choices)
    model_name = models.CharField("model", max_length=MAX_MODEL_NAME, blank=True)
    version = models.PositiveIntegerField(null=True, blank=True)
    key_prefix = models.CharField("API key", max_length=8, blank=True, help_text="Empty for the browser.")
    status = models.PositiveSmallIntegerField(help_text="The HTTP status that was sent.")
    error_code = models.CharField(max_length=40, blank=True)
    reference = models.CharField(
        "model as asked for", max_length=MAX_REFERENCE, blank=True, default="", db_default=""
    )
    param = models.CharField(
        max_length=MAX_PARAM, blank=True, default="", db_default="", help_text="The field at fault."
    )
    message = models.CharField(
        max_length=MAX_MESSAGE,
        blank=True,
        default="",
        db_default="",
        help_text="Why there is no answer, without values of the request.",
    )
    latency_ms = models.FloatField("latency", null=True, blank=True)
    level = models.CharField(max_length=8, blank=True, help_text="table, cascade or full.")
    inputs = models.PositiveIntegerField(default=0)
    tokens = models.PositiveBigIntegerField(default=0, help_text="Prompt and generated tokens.")
    generated_tokens = models.PositiveBigIntegerField(default=0)
    details = models.JSONField(default=dict, blank=True)
    texts = models.JSONField(null=True, blank=True)

    unscoped = models.Manager()
    objects = TenantScopedManager()

    class Meta:
        ordering = ("-id",)
        indexes = (
            models.Index(fields=("tenant", "-id"), name="request_newest"),
            models.Index(fields=("tenant", "model_name", "-id"), name="request_by_model"),
            models.Index(fields=("tenant", "-id"), condition=~Q(error_code=""), name="request_failures"),
            # Also for the beginning of an id.
            models.Index(
                fields=("tenant", "request_id"),
                opclasses=("int8_ops", "varchar_pattern_ops"),
                name="request_by_id",
            ),
            models.Index(fields=("at",), name="request_by_age"),
        )

    def __str__(self) -> str:
        return f"{self.request_id} of {self.tenant}"

    @property
    def outcome(self) -> RequestStatus:
        """How it ended."""
        return RequestStatus.of(self.error_code)


class OmittedRequests(models.Model):
    """How many requests of one hour (UTC) are not in the log, because too many came in at a time."""

    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.CASCADE, related_name="omitted_requests")
    hour = models.DateTimeField()
    requests = models.PositiveBigIntegerField(default=0)
    refused = models.PositiveBigIntegerField(default=0, db_default=0)
    failed = models.PositiveBigIntegerField(default=0)

    unscoped = models.Manager()
    objects = TenantScopedManager()

    class Meta:
        ordering = ("-hour",)
        verbose_name_plural = "requests not logged"
        constraints = (
            models.UniqueConstraint(
                fields=("tenant", "hour"),
                name="one_row_of_omitted_requests_per_hour",
                violation_error_message="There is already a row for this tenant and hour.",
            ),
            models.CheckConstraint(
                condition=Q(requests__gte=models.F("failed") + models.F("refused")),
                name="omitted_counts_within_requests",
                violation_error_message="There cannot be more failed and refused requests than requests.",
            ),
        )

    def __str__(self) -> str:
        return f"{self.requests} of {self.tenant} at {self.hour:%Y-%m-%d %H:00}"
