"""The kinds of roots."""

from django.db.models import TextChoices


class RootKind(TextChoices):
    """What a root's checkpoint is, and with it the models below: encoders read texts, decoders write them."""

    ENCODER = "encoder", "Encoder"
    DECODER = "decoder", "Decoder"

    @property
    def in_words(self) -> str:
        """For messages: "an encoder"."""
        return f"a{'n' if self is RootKind.ENCODER else ''} {self}"
