"""What PostgreSQL plans by, after many rows were written at once."""

from django.db import connection


def statistics_gather() -> None:
    """Let PostgreSQL know how many rows there are. By itself it looks a minute later, and does not see those
    of an open transaction; until then it takes a table that was just filled for empty, and a search of it may
    take seconds."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
