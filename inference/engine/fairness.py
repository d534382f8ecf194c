"""Weighted fair queueing over tenants (start-time fair queueing), by the engine time that their rows took."""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

Item = TypeVar("Item")

FIRST_MS_PER_TOKEN: Final = 0.05
WEIGHT: Final = 0.1
LEAST_KEPT: Final = 64
ALONE_AFTER: Final = 256


@dataclass(slots=True)
class _Account:
    """Milliseconds charged, divided by the tenant's weight, and those charged last; rows that wait or are
    being computed, and how many of them are being computed."""

    virtual_time: float
    last_charge: float = 0.0
    rows: int = 0
    in_flight: int = 0

    @property
    def start(self) -> float:
        """The start tag: the virtual time before the last row that is being computed; now's if none is."""
        return self.virtual_time - self.last_charge if self.in_flight else self.virtual_time


class FairShares:
    """Start-time fair queueing. The virtual time of a tenant is the milliseconds of the engine that it was
    charged, divided by its weight. The tenant with the least virtual time is due first.

    A tenant that comes back is lifted to the system's virtual time, the least start tag of the others: the
    virtual time before the last row that is being computed, or that of a tenant that only waits. Idleness
    earns nothing, and time that a tenant took while no other wanted it costs nothing. A newcomer is due
    before a tenant that has a row in service and wants another. Tenants without rows are forgotten once
    their virtual time would be lifted anyway. Not thread-safe.
    """

    def __init__(self, weight: Callable[[str], float] = lambda _: 1.0) -> None:
        """``weight`` is called whenever a tenant is charged, so weights may change."""
        self._weight = weight
        self._accounts: dict[str, _Account] = {}
        self._active = 0
        self._system_time = 0.0
        self._sweep_at = LEAST_KEPT
        self._ms_per_token = 0.0
        self._latest = ""
        self._alone_for = ALONE_AFTER

    def __len__(self) -> int:
        """The number of tenants that have an account."""
        return len(self._accounts)

    def weight(self, tenant: str) -> float:
        """The tenant's weight: its share is in proportion to it."""
        return self._weight(tenant)

    def virtual_time(self, tenant: str) -> float:
        """The tenant's virtual time, or that at which it would enter now."""
        account = self._accounts.get(tenant)
        return self._system_time if account is None else account.virtual_time

    def enter(self, tenant: str, rows: int) -> None:
        """So many rows of the tenant wait from now on."""
        account = self._accounts.get(tenant)
        if account is None or not account.rows:
            self._advance_system_time()
            account = self._accounts.setdefault(tenant, _Account(self._system_time))
            account.virtual_time = max(account.virtual_time, self._system_time)
            self._active += 1
            self._note(tenant)
        account.rows += rows

    def leave(self, tenant: str, rows: int) -> None:
        """So many of its waiting rows are no longer wanted."""
        account = self._accounts[tenant]
        account.rows -= rows
        assert account.rows >= account.in_flight, f"{tenant} has fewer rows than leave"
        if not account.rows:
            self._active -= 1
            self._forget()

    def due(
        self,
        queues: Mapping[str, Sequence[Item]],
        *,
        tokens: Callable[[Item], int],
        quantum: int,
    ) -> Iterator[Item]:
        """The items of the tenants' queues, none of them empty, in the order in which they are due: by the
        virtual time of their tenant once the items before them are charged.

        Leaves out what would bring a tenant ahead of the one due first, and that by more than
        ``quantum``: such rows would only delay the others in their batch; and the engine must not be
        full of one tenant's rows when another comes. A tenant with a single row may get ahead by as much for
        each tenant that waits: else its row needs a batch of its own. Nothing is left out while one tenant
        is alone.
        """
        # Among equals the one with the fewest rows: a flood of rows notices another one least.
        heap = [(self.virtual_time(tenant), len(queue), tenant, 0) for tenant, queue in queues.items()]
        heapq.heapify(heap)
        first = heap[0][0] if heap else 0.0
        ahead = self._expected(quantum) if self._contested() else float("inf")
        while heap:
            at, waiting, tenant, place = heap[0]
            queue = queues[tenant]
            expected = self._expected(tokens(queue[place]))
            late = at > first and at + expected > first + ahead * (len(queues) if waiting == 1 else 1)
            if not late:
                yield queue[place]
            if late or place + 1 == waiting:
                heapq.heappop(heap)
            else:
                at += expected / self._weight(tenant)
                heapq.heapreplace(heap, (at, waiting, tenant, place + 1))

    def charge(self, tenant: str, tokens: int) -> float:
        """Charge for a row that begins what it is expected to take; returns those milliseconds, for
        ``settle``."""
        expected = self._expected(tokens)
        account = self._accounts[tenant]
        account.last_charge = expected / self._weight(tenant)
        account.virtual_time += account.last_charge
        account.in_flight += 1
        assert account.in_flight <= account.rows, f"{tenant} has fewer rows than begin"
        return expected

    def settle(self, tenant: str, charged: float, took_ms: float | None = None) -> None:
        """A row that was charged so has ended. It is charged what it took instead, unless that is None."""
        account = self._accounts[tenant]
        if took_ms is not None:
            account.virtual_time += (took_ms - charged) / self._weight(tenant)
        account.in_flight -= 1
        assert account.in_flight >= 0, f"{tenant} has fewer rows in flight than end"
        self.leave(tenant, 1)

    def learn(self, tokens: int, took_ms: float) -> None:
        """A batch of so many tokens took so long."""
        self._alone_for += 1
        rate = took_ms / tokens
        weight = WEIGHT if self._ms_per_token else 1.0
        self._ms_per_token += weight * (rate - self._ms_per_token)

    def _note(self, tenant: str) -> None:
        """Record whether another tenant than the last one came."""
        if self._latest not in ("", tenant):
            self._alone_for = 0
        self._latest = tenant

    def _contested(self) -> bool:
        """Whether several tenants have rows, or had some in the last batches."""
        return self._active > 1 or self._alone_for < ALONE_AFTER

    def _expected(self, tokens: int) -> float:
        return tokens * (self._ms_per_token or FIRST_MS_PER_TOKEN)

    def _advance_system_time(self) -> None:
        """Advance to the least start tag of tenants with rows; it never goes back."""
        if self._active:
            least = min(account.start for account in self._accounts.values() if account.rows)
            self._system_time = max(self._system_time, least)

    def _forget(self) -> None:
        """Forget tenants behind the system's virtual time: all, if none has rows; else now and then."""
        if not self._active:
            self._accounts.clear()
        elif len(self._accounts) > self._sweep_at:
            self._advance_system_time()
            accounts = self._accounts.items()
            self._accounts = {
                name: one for name, one in accounts if one.rows or one.virtual_time > self._system_time
            }
            self._sweep_at = max(LEAST_KEPT, 2 * len(self._accounts))
