"""The command `hmi`."""

from hmi_client.cli.app import main

__all__ = ["main"]
