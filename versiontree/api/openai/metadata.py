"""What a client notes on a thing that it makes, for itself."""

from typing import Any, Final

from rest_framework import serializers

MOST: Final = 16
LONGEST_KEY, LONGEST_VALUE = 64, 512


class MetadataField(serializers.DictField):
    """Texts by names, as many and as long as the OpenAI conventions allow."""

    def __init__(self) -> None:
        child = serializers.CharField(max_length=LONGEST_VALUE, allow_blank=True)
        super().__init__(child=child, required=False, allow_null=True)

    def to_internal_value(self, data: Any) -> Any:
        """The texts. Raises ValidationError."""
        given = super().to_internal_value(data)
        if len(given) > MOST or any(len(key) > LONGEST_KEY for key in given):
            raise serializers.ValidationError(f"At most {MOST} keys of at most {LONGEST_KEY} characters.")
        return given
