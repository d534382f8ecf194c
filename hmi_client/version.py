"""The version of the client, its command, and the package that they are installed from."""

__version__ = "0.1.0"
