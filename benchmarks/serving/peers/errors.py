"""What may go wrong with a peer."""


class PeerError(Exception):
    """A peer gave no figure."""


class PeerUnavailable(PeerError):
    """The peer cannot be run on this machine; the benchmark goes on without it."""


class PeerFailed(PeerError):
    """The peer's program refused, broke off, or did not answer in time."""
