"""What the API takes and shows. Checks of content are the services' concern."""

from typing import Any

from rest_framework import serializers


class WordsQuerySerializer(serializers.Serializer[Any]):
    """Only what has these words in its name."""

    words = serializers.CharField(required=False, default="")
