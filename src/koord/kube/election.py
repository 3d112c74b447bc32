# SPDX-License-Identifier: Apache-2.0
"""Leader election on Leases, with client-go's names, numbers and record.

Two must never act at once. A contender takes a lease only after it has seen the same record for as
long as the record says, on its own clock; the holder counts its lead from *before* it sent the
renewal that worked, and for less time than that. So the lead is over before anyone can take it,
whatever the clocks show and however long an answer takes.

Both count on ``CLOCK_BOOTTIME``: it goes on while the process is stopped (SIGSTOP) and, unlike the
monotonic clock, while the machine sleeps. A process that wakes up after its lead finds it over
at :meth:`LeaderElector.check`, before any timer has run. What is on its way to the server at that
moment only the server can refuse: :attr:`LeaderElector.token` is what a write is fenced with.

A lease that somebody deletes can be taken at once; nothing but the token protects from that.

With a client of its own (``renewal_client``) renewal runs in a thread, so that an event loop which
is held up keeps its lead, for as long as :attr:`Timing.stand_still_seconds`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from koord.api.kinds.cluster import Lease, LeaseSpec
from koord.api.kinds.meta import ObjectMeta
from koord.api.timestamps import micros_text
from koord.base import faults, log, rng
from koord.base.clock import Clock, SystemClock
from koord.base.errors import KoordError, one_line
from koord.base.metrics import MetricRegistry, registry
from koord.kube.errors import ApiError, TransportError
from koord.kube.lease_thread import LeaseThread

if TYPE_CHECKING:
    from koord.kube.client import Client

T = TypeVar("T")

# client-go's: a contender that does not get the lease waits up to 2.2 times the retry period.
_JITTER = 1.2
_NOT_FOUND, _CONFLICT = 404, 409
_LOG = log.get("election")


class LeadLostError(Exception):
    """The lead is over, or may be: stop acting."""


class BootClock(SystemClock):
    """The machine's clocks; the monotonic one goes on while process or machine sleep."""

    def monotonic_seconds(self) -> float:
        """Seconds since the machine started, time asleep included."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)


class Token(NamedTuple):
    """Which lead it is; a later lead has a greater token, even if the lease was deleted between.

    Attributes:
        version: resource version of the write that took the lease.
        transitions: how often the lease has changed hands.
    """

    version: int
    transitions: int


class Timing(NamedTuple):
    """How long a lead lasts.

    Attributes:
        lease_seconds: how long others leave an unchanged record alone; whole, as it is on the wire.
        renew_deadline_seconds: how long the holder acts after a renewal.
        retry_seconds: between tries to take or renew.
        stand_still_seconds: how long a thread renews for an event loop that does not turn.
    """

    lease_seconds: int = 15
    renew_deadline_seconds: float = 10.0
    retry_seconds: float = 2.0
    stand_still_seconds: float = 60.0

    def check(self) -> None:
        """Refuses times under which two could act, or nobody would.

        Raises:
            KoordError: the times do not grow from retry to renewal to lease.
        """
        if self.lease_seconds < 1 or not self.renew_deadline_seconds < self.lease_seconds:
            expected = f"more than renew_deadline_seconds, {self.renew_deadline_seconds}"
            raise KoordError("leader election", "lease_seconds", self.lease_seconds, expected)
        if not 0 < self.retry_seconds * _JITTER < self.renew_deadline_seconds:
            expected = f"at least {_JITTER} x retry_seconds, {self.retry_seconds}"
            got = self.renew_deadline_seconds
            raise KoordError("leader election", "renew_deadline_seconds", got, expected)
        if not self.stand_still_seconds > self.retry_seconds:
            expected = f"more than retry_seconds, {self.retry_seconds}"
            got = self.stand_still_seconds
            raise KoordError("leader election", "stand_still_seconds", got, expected)


class LeaderElector:
    """Takes part in the election for one lease.

    Args:
        client: the way to the API server.
        name: of the lease.
        namespace: of the lease.
        identity: who this is; no two processes, nor two lives of one, may share it.
        timing: how long a lead lasts.
        annotations: what to write onto the lease when taking it.
        on_new_leader: told of each holder that is seen, itself included.
        clock: its monotonic time must go on while the process is stopped.
        seed: of the jitter between tries.
        metrics: the component's registry.
        renewal_client: opens a client of a thread's own, which renews then; for real time and real
            connections. None renews by the event loop.

    Attributes:
        occupied_by: says what the event loop is doing, for the log; asked by that thread.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        namespace: str,
        identity: str,
        *,
        timing: Timing | None = None,
        annotations: Mapping[str, str] | None = None,
        on_new_leader: Callable[[str], None] | None = None,
        clock: Clock | None = None,
        seed: int = 0,
        metrics: MetricRegistry | None = None,
        renewal_client: Callable[[], AbstractAsyncContextManager[Client]] | None = None,
    ) -> None:
        if not identity:
            raise KoordError("leader election", "identity", identity, "a name of this process")
        if client.dry_run is not None:
            raise KoordError("leader election", "client", "a dry run", "one that writes")
        self.identity = identity
        self._client = client
        self._name = name
        self._namespace = namespace
        self._timing = timing or Timing()
        self._timing.check()
        self._annotations = dict(annotations or {})
        self._on_new_leader = on_new_leader
        self._clock = clock or BootClock()
        self._renewal_client = renewal_client
        self.occupied_by: Callable[[], str] = lambda: ""
        # When the event loop turned last; only looked at by a thread.
        self._beat_at = 0.0
        self._draw = rng.stream(seed, "kube", "election", identity)
        into = metrics or registry()
        doc = "Whether this process leads."
        self._status = into.gauge("leader_election_master_status", doc, ("name",)).labels(name)
        # The version of the lease as last seen, and when it was first seen. The version and not
        # the record, as in client-go: a holder whose wall clock stands still renews all the same.
        self._seen = ""
        self._seen_at = 0.0
        self._leader = ""
        # The lease as this process last wrote it; None where it must be read first.
        self._own: Lease | None = None
        self._token: Token | None = None
        # When the lead ends if it is not renewed, and whether it ended before that.
        self._until = 0.0
        self._lost = False
        # What was warned of last, and how often the same has come again since.
        self._warned, self._repeated = ("", ""), 0
        # Whether work goes on that was cancelled and has not ended: its lease is not given back.
        self._stuck = False

    @property
    def leader(self) -> str:
        """Who was last seen to hold the lease; empty for nobody."""
        return self._leader

    @property
    def leading(self) -> bool:
        """Whether this process surely leads now."""
        held = self._token is not None and not self._lost
        return held and self._clock.monotonic_seconds() < self._until

    @property
    def token(self) -> Token:
        """What fences the writes of this lead.

        Raises:
            LeadLostError: this process does not lead.
        """
        self.check()
        assert self._token is not None
        return self._token

    def check(self) -> None:
        """Call before each write.

        Raises:
            LeadLostError: the lead is over, or may be.
        """
        if not self.leading:
            raise LeadLostError(f"lease {self._namespace}/{self._name} is not held")

    def healthy(self, tolerance_seconds: float = 20.0) -> bool:
        """False for a leader that could not renew for long and has not stopped: a stuck process."""
        late = self._clock.monotonic_seconds() - self._until
        slack = self._timing.lease_seconds - self._timing.renew_deadline_seconds
        return self._token is None or late <= slack + tolerance_seconds

    async def lead(self, work: Callable[[], Awaitable[T]]) -> T:
        """Waits for the lead and does the work while it lasts; the lease is released afterwards.

        Returns:
            What the work returned.

        Raises:
            LeadLostError: the lead was lost; the work was cancelled before others could lead.
            Exception: what the work raised.
        """
        await self._campaign()
        # First who renews: the work may not let anybody else begin.
        keeping = asyncio.create_task(self._renewing(), name=f"lease {self._name}")
        doing: asyncio.Future[T] = asyncio.ensure_future(work())
        both: set[asyncio.Future[Any]] = {doing, keeping}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                return doing.result()
            keeping.result()
            raise LeadLostError(f"lease {self._namespace}/{self._name} was lost")
        finally:
            await self._finish(doing, keeping)

    async def _finish(self, doing: asyncio.Future[T], keeping: asyncio.Task[None]) -> None:
        """Ends the work, then the lead. Renewal goes on until the work has ended."""
        try:
            if not doing.done():
                doing.cancel()
                # Who cancels a second time does not wait for the work: it may go on acting.
                self._stuck = True
                await asyncio.wait({doing})
                self._stuck = False
                if not doing.cancelled() and (error := doing.exception()) is not None:
                    self._warn("work failed while it was cancelled", error)
        finally:
            keeping.cancel()
            await asyncio.wait({keeping})
            await self._step_down()

    async def _campaign(self) -> None:
        while True:
            try:
                if await self._attempt(self._client) and self.leading:
                    break
            except (ApiError, TransportError, KoordError) as error:
                self._warn("lease cannot be taken", error)
            self._token = None
            wait = self._timing.retry_seconds * (1.0 + _JITTER * self._draw.random())
            await asyncio.sleep(wait)
        self._status.set(1)
        _LOG.info("leading", extra=log.fields(lease=self._name, identity=self.identity))

    async def _renewing(self) -> None:
        """Renews until the lead is lost, in a thread where there is a client for one.

        What changes with a renewal is the thread's from here to its end.
        """
        opened = self._renewal_client
        if opened is None:
            await self._keep(self._client)
            return

        async def apart() -> None:
            async with opened() as client:
                await self._keep(client, watches=True)

        self._beat_at = self._clock.monotonic_seconds()
        beating = asyncio.create_task(self._beat(), name=f"heartbeat {self._name}")
        try:
            await LeaseThread(f"lease {self._name}", apart).run()
        finally:
            beating.cancel()
            await asyncio.wait({beating})

    async def _beat(self) -> None:
        """Notes that the event loop turns."""
        while True:
            self._beat_at = self._clock.monotonic_seconds()
            await asyncio.sleep(min(1.0, self._timing.stand_still_seconds / 8))

    def _stands_still(self) -> bool:
        """Whether the event loop has not turned for too long; then the lead is over."""
        still = self._clock.monotonic_seconds() - self._beat_at
        if still < self._timing.stand_still_seconds:
            return False
        self._lost = True
        where = log.fields(lease=self._name, seconds=round(still, 1), doing=self.occupied_by())
        _LOG.error("the lead is given up: the event loop stands still", extra=where)
        return True

    async def _keep(self, client: Client, *, watches: bool = False) -> None:
        """Renews until the lead is lost; ``watches`` for who runs beside the event loop."""
        while self.leading:
            if watches and self._stands_still():
                return
            left = self._until - self._clock.monotonic_seconds()
            await asyncio.sleep(min(self._timing.retry_seconds, left))
            left = self._until - self._clock.monotonic_seconds()
            if left <= 0:
                return
            try:
                faults.point("kube.election.renew")
                async with asyncio.timeout(left):
                    await self._attempt(client)
            except (ApiError, TransportError, KoordError, TimeoutError) as error:
                self._warn("lease cannot be renewed", error)

    async def _attempt(self, client: Client) -> bool:
        """Tries once to take or renew the lease."""
        lease, self._own = self._own or await self._read(client), None
        if not self._may_write(lease):
            self._recovered("read")
            return False
        # Counted from here: the server cannot apply the write any earlier.
        sent = self._clock.monotonic_seconds()
        write = client.create if lease is None else client.update
        try:
            stored = await write(self._claim(lease), timeout_seconds=self._patience)
        except ApiError as error:
            if error.http_status == _CONFLICT:
                # Somebody else wrote: the next try reads.
                return False
            raise
        self._own = stored
        self._recovered("written")
        self._see(stored)
        if self._token is None:
            version = int(stored.metadata.resource_version)
            self._token = Token(version, stored.spec.lease_transitions or 0)
        self._until = sent + self._timing.renew_deadline_seconds
        return True

    async def _read(self, client: Client) -> Lease | None:
        try:
            lease = await client.get(
                Lease, self._name, self._namespace, timeout_seconds=self._patience
            )
        except ApiError as error:
            if error.http_status == _NOT_FOUND:
                return None
            raise
        if f"{lease.metadata.uid} {lease.metadata.resource_version}" != self._seen:
            self._see(lease)
        return lease

    def _may_write(self, lease: Lease | None) -> bool:
        held = lease is not None and lease.spec.holder_identity == self.identity
        if self._token is not None:
            # A lease that others took or removed is not taken back within the same lead.
            self._lost = self._lost or not held
            return held
        if lease is None or held or not lease.spec.holder_identity:
            return True
        lasts = lease.spec.lease_duration_seconds or self._timing.lease_seconds
        return self._clock.monotonic_seconds() >= self._seen_at + lasts

    def _claim(self, lease: Lease | None) -> Lease:
        """The lease as it is to be: taken, or renewed where it is held already."""
        now = self._now()
        if lease is None:
            meta = ObjectMeta(name=self._name, namespace=self._namespace)
            acquired, transitions = now, 0
        else:
            meta = lease.metadata
            transitions = lease.spec.lease_transitions or 0
            acquired = lease.spec.acquire_time or now
            if lease.spec.holder_identity != self.identity:
                acquired, transitions = now, transitions + 1
        spec = LeaseSpec(self.identity, self._timing.lease_seconds, acquired, now, transitions)
        annotations = {**meta.annotations, **self._annotations}
        meta = msgspec.structs.replace(meta, annotations=annotations)
        return Lease(metadata=meta, spec=spec)

    def _see(self, lease: Lease) -> None:
        self._seen = f"{lease.metadata.uid} {lease.metadata.resource_version}"
        self._seen_at = self._clock.monotonic_seconds()
        if lease.spec.holder_identity == self._leader:
            return
        self._leader = lease.spec.holder_identity
        _LOG.info("new leader", extra=log.fields(lease=self._name, leader=self._leader))
        if self._on_new_leader is not None:
            try:
                self._on_new_leader(self._leader)
            except Exception as error:
                self._warn("on_new_leader failed", error)

    async def _step_down(self) -> None:
        """Gives the lease back, if it is still this process's to give."""
        held, self._own = self._own, None
        releasable = held is not None and self.leading and not self._stuck
        self._token, self._lost, self._stuck = None, False, False
        self._status.set(0)
        if held is None or not releasable:
            return
        now = self._now()
        transitions = held.spec.lease_transitions
        held = Lease(metadata=held.metadata, spec=LeaseSpec("", 1, now, now, transitions))
        with suppress(asyncio.CancelledError):
            try:
                stored = await self._client.update(held, timeout_seconds=self._patience)
            except (ApiError, TransportError, KoordError) as error:
                self._warn("lease cannot be released", error)
            else:
                self._see(stored)

    @property
    def _patience(self) -> float:
        """How long one request may take, so that a lead survives one that hangs."""
        return self._timing.renew_deadline_seconds / 2

    def _now(self) -> str:
        return micros_text(self._clock.wall_seconds())

    def _warn(self, what: str, error: BaseException) -> None:
        """Tells of a failure, of the same that comes again and again once."""
        told = one_line(str(error)) or type(error).__name__
        if (what, told) == self._warned:
            self._repeated += 1
            return
        self._warned, self._repeated = (what, told), 0
        _LOG.warning(what, extra=log.fields(lease=self._name, error=told))

    def _recovered(self, what: str) -> None:
        """The lease was read or written again; with how often it had failed after that was told."""
        if self._repeated:
            where = log.fields(lease=self._name, repeated=self._repeated)
            _LOG.info(f"lease {what} again", extra=where)
        self._warned, self._repeated = ("", ""), 0
