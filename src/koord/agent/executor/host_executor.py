# SPDX-License-Identifier: Apache-2.0
"""The one place that writes to the host: composes claims, journals, orders, writes, reads back."""

from __future__ import annotations

import errno
import math
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from koord.agent.executor import write_events
from koord.agent.executor.composition.claim_index import ClaimIndex
from koord.agent.executor.composition.claim_queries import ClaimQueries
from koord.agent.executor.composition.value_resolver import (
    BurstLimit,
    ComposedValue,
    OwnedClaim,
    ValueResolver,
    never_exceeds,
)
from koord.agent.executor.drift import DriftDetector
from koord.agent.executor.target import (
    BURST,
    CORE_SCHED,
    INHERITED,
    QUOTA,
    SET_ON_TASKS,
    Baseline,
    Target,
    Value,
    normalised,
    parent_of,
    place_of,
    target_of,
    unchanged_baseline,
)
from koord.agent.executor.value_memory import ValueMemory
from koord.agent.executor.write_failures import (
    RejectedClaims,
    WriteFailure,
    WriteFailures,
    from_error,
)
from koord.agent.executor.writers.target_writer import CookieKeeper, WriteRequest
from koord.agent.executor.writers.writer_set import WriterSet
from koord.base import faults, log
from koord.base.errors import KoordError, one_line
from koord.kernels.cgroup import Outcome, Written
from koord.kernels.cgroup_parse import Version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from collections.abc import Set as AbstractSet

    from koord.agent.executor.claim import Claim, Layer
    from koord.agent.executor.journal import Journal
    from koord.agent.executor.writers.target_writer import LateWriter, TargetWriter
    from koord.base.clock import Clock

_LOG = log.get("agent.executor")
# Descriptors of cgroups that are gone keep a little of each in the kernel's memory. To close them
# means that all others are opened anew, some milliseconds for a full node: not more often than so.
_CLOSE_SECONDS = 30.0


class ExecutorOptions(NamedTuple):
    """How an executor works.

    Attributes:
        version: of the cgroup tree.
        page_bytes: size of a page; byte limits are cut to whole ones.
        force_seconds: every file is compared again after this long, and edits by hand put back
            (``--resource-force-update-seconds``).
        grace_seconds: how long after its start an executor waits for owners to claim again what
            the journal holds, before it gives that back.
        living_seconds: how often tasks are looked at again, whose number changes by itself.
        dry_run: nothing is written, neither to the host nor to the journal; what would be is
            reported.
    """

    version: Version
    page_bytes: int = 4096
    force_seconds: float = 60.0
    grace_seconds: float = 120.0
    living_seconds: float = 10.0
    dry_run: bool = False


class HostExecutor:
    """The executor of one node; see :class:`koord.agent.executor.claim.Executor`.

    Not thread-safe: strategies, hooks and the reconciler run in one event loop.

    Args:
        kinds: writers; the first that takes a resource has it.
        journal: originals, opened.
        clock: for waits; wall time is not looked at.
        settings: how it works.
        reporter: told of every write and failure.
        baseline: what files say while no agent writes them; by default what they said at first.
    """

    def __init__(
        self,
        kinds: Sequence[TargetWriter | LateWriter],
        journal: Journal,
        clock: Clock,
        settings: ExecutorOptions,
        reporter: write_events.Reporter | None = None,
        baseline: Baseline = unchanged_baseline,
    ) -> None:
        self._writers, self._journal, self._clock = WriterSet(kinds), journal, clock
        self._settings, self._baseline = settings, baseline
        self._reporter = reporter or write_events.ignore
        self._claims, self._failures, self._refusals = (
            ClaimIndex(),
            WriteFailures(),
            RejectedClaims(),
        )
        # A dry run asks nothing.
        self._burst = BurstLimit(known=False if settings.dry_run else None)
        self._orphans = set(journal.targets())
        self._last_values = ValueMemory()
        self._started_seconds = self._forced_seconds = clock.monotonic_seconds()
        self._lived_seconds = self._started_seconds
        self._recheck: AbstractSet[Target] = frozenset()
        self._drift = DriftDetector(self._writers.writer_of, self._last_values, self._failures)
        # Whether targets have gone since descriptors were closed, and when that was.
        self._targets_gone, self._closed_seconds = False, -math.inf
        self._absent_files: set[str] = set()
        # Why the journal could not be written last time; empty where it was.
        self._uncommitted = ""
        self._queries = ClaimQueries(
            self._claims, journal, self._writers.writer_of, settings.version
        )

    def adopt(self, originals: Iterable[tuple[Target, Value]]) -> None:
        """Takes over what an earlier agent left without a journal; given back like its own.

        Args:
            originals: what each is to be when nobody claims it within the time of grace.
        """
        new = [(target, value) for target, value in originals if target not in self._journal]
        self._journal.add(new)
        self._orphans.update(target for target, _ in new)

    def state(self, owner: str, scope: str, claims: list[Claim]) -> None:
        """Replaces all claims of an owner within a scope; what can never be written is refused.

        A refused claim is reported once and counts as not made; the others of the call stand.
        """
        if self._claims.is_unchanged(owner, scope, claims):
            return
        taken: list[tuple[Target, OwnedClaim]] = []
        refused: list[str] = []
        for claim in claims:
            try:
                target = target_of(claim)
                value = normalised(claim, self._settings.page_bytes)
                self._check(target, claim, value)
                taken.append((target, OwnedClaim(owner, scope, claim._replace(value=value))))
            except KoordError as error:
                refused.append(str(error))
        self._claims.state(owner, scope, taken, claims)
        self._refusals.note(owner, scope, tuple(refused))

    @property
    def generation(self) -> int:
        """Another number whenever any claims are others, whosever they are."""
        return self._claims.generation

    def withdraw(self, owner: str, scope: str | None = None) -> None:
        """Takes claims back: those of a scope, or all of an owner's."""
        for name in self._claims.scopes(owner) if scope is None else [scope]:
            self.state(owner, name, [])

    def bases(self, resource: str, directories: list[str], below: Layer) -> list[int | None]:
        """What the layers below one make of a numeric file; None where nobody claims it there."""
        return self._queries.bases(resource, directories, below)

    def current(self, resource: str, directory: str) -> str | None:
        """What the file says now, in v1 units; None where it cannot be read."""
        return self._queries.current(resource, directory)

    def values(self, resource: str, directories: list[str]) -> list[Value | None]:
        """The same of many directories; numbers as such."""
        return self._queries.values(resource, directories)

    def last_values(self, resource: str, directories: list[str]) -> list[Value | None]:
        """What files of many directories said when they were last compared or written; no look."""
        return self._last_values.of(resource, directories)

    def cookie(self, group: str) -> int:
        """The core scheduling cookie of a group, 0 for none yet."""
        kind = self._writers.writer_of(CORE_SCHED)
        return kind.cookie(group) if isinstance(kind, CookieKeeper) else 0

    def recheck(self, *owners: str) -> None:
        """Compares the files that some owners claim at the next :meth:`settle`; none is any."""
        claimed = self._claims.claimed_by(owners)
        # As it is where it is alone: the same set again is compared with less ado.
        self._recheck = self._recheck | claimed if self._recheck else claimed

    def settle(self) -> None:
        """Composes, orders and writes what changed; failures are kept and tried again."""
        now = self._clock.monotonic_seconds()
        due = self._due(now)
        if due:
            self._settle(sorted(due), now)
        if self._targets_gone and now - self._closed_seconds >= _CLOSE_SECONDS:
            self.close()
        self._commit_quietly()

    def give_all_back(self) -> list[WriteFailure]:
        """Withdraws every claim and puts every original back; what remains that could not be."""
        for target in self._claims.targets():
            for owned in self._claims.of(target):
                self._claims.state(owned.owner, owned.scope, [])
        now = self._clock.monotonic_seconds()
        for _ in range(3):  # children may wait for parents, and parents for children
            if targets := self._journal.targets():
                self._orphans -= set(targets)
                self._settle(targets, now)
        self._commit_quietly()
        return [failure for failure in self._failures.all() if failure.target in self._journal]

    def close(self) -> None:
        """Closes descriptors that stayed open; those that are used again are opened anew."""
        self._writers.close_kept()
        self._targets_gone, self._closed_seconds = False, self._clock.monotonic_seconds()

    def failures(self) -> list[WriteFailure]:
        """Targets that do not say what they should.

        Not those that the kernel does not have, and not those of cgroups that are not there.
        """
        return [each for each in self._failures.all() if each.result.outcome is Outcome.FAILED]

    def unsupported(self) -> list[str]:
        """Files that somebody wanted and this kernel does not have, by name."""
        every = self._failures.all()
        return sorted({e.target.resource for e in every if e.result.outcome is Outcome.UNSUPPORTED})

    def refused(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """Claims that can never be written, by owner and scope, one line each."""
        return self._refusals.all()

    def explain(self) -> list[write_events.TargetClaims]:
        """Every target with its value, and the claims that made it."""
        resolver = self._resolver(self._burst.exceeds if self._burst.known else never_exceeds)
        lines = []
        for target in self._claims.targets():
            claims = tuple(write_events.claim_text(owned) for owned in self._claims.of(target))
            made = resolver.final(target)
            lines.append(write_events.TargetClaims(target, made.value if made else None, claims))
        return lines

    # -- what is due ---------------------------------------------------------------------------

    def _due(self, now: float) -> set[Target]:
        changed, self._claims.dirty = self._claims.dirty, set()
        if self._orphans and now - self._started_seconds > self._settings.grace_seconds:
            changed |= {target for target in self._orphans if not self._claims.of(target)}
            self._orphans = set()
        self._orphans -= changed
        due = self._failures.due(now)
        if self._recheck:
            due |= self._drift.drifted(self._recheck)
        forced = now - self._forced_seconds > self._settings.force_seconds
        lived = now - self._lived_seconds >= self._settings.living_seconds
        self._recheck = frozenset()
        if not (changed or due or forced or lived):
            return due
        if changed:
            due |= self._claims.affected(changed, self._known())
        if forced:
            self._forced_seconds = now
            due |= self._differing({t for t in self._known() if not self._failures.waiting(t, now)})
        if lived:
            self._lived_seconds = now
            every = chain(self._claims.claimed(), self._journal.kept())
            due |= {target for target in every if target.resource in SET_ON_TASKS}
        return {target for target in due if target in changed or self._is_known(target)}

    def _known(self) -> set[Target]:
        """All that is claimed or being given back: thousands on a full node."""
        return self._claims.claimed() | (self._journal.kept() - self._orphans)

    def _is_known(self, target: Target) -> bool:
        """Whether one is among them."""
        waits = target in self._orphans
        return bool(self._claims.of(target)) or (target in self._journal and not waits)

    def _differing(self, targets: set[Target]) -> set[Target]:
        """Those that are not to say what they said last, do not say it, or are to be given back."""
        for target in targets:
            self._derive(target)
        found = self._drift.drifted(targets)

        def exceeds(target: Target) -> bool:
            """Where that is not known, settling one asks the kernel."""
            if self._burst.known is None:
                found.add(target)
            return self._burst.known is True

        resolver = self._resolver(exceeds)
        for target in targets - found:
            made = resolver.final(target) if self._claims.of(target) else None
            if made is None or made.value != self._last_values.get(target):
                found.add(target)
        return found

    def _settle(self, due: list[Target], now: float) -> None:
        made = self._made(self._journalled(due, now))
        if self._settings.dry_run:
            self._plan(self._write_requests(made), made)
            return
        done = self._writers.write(self._write_requests(made), now)
        asked = self._burst.learn(done, self._writers.held)
        if asked is not None and not self._burst.known:
            # Quotas fail for the sake of a burst beside them, and for that of a child's quota.
            failed = {w.target for w, r in done if r.outcome is Outcome.FAILED} | {asked}
            again = self._made([t for t in made if t in failed and t.resource in (QUOTA, BURST)])
            made |= again
            done = [each for each in done if each[0].target not in again]
            done += self._writers.write(self._write_requests(again), now)
        for request, result in done:
            self._note(request, made[request.target], result, now)
        if asked is not None and self._burst.known:
            cut = {target for target in self._claims.targets() if target.resource == BURST}
            self._settle(sorted(cut - {asked}), now)

    def _made(self, targets: list[Target]) -> dict[Target, ComposedValue]:
        """What each is to say; those that nobody gives a value are left out."""
        resolver = self._resolver(self._burst.exceeds)
        finals = ((target, resolver.final(target)) for target in targets)
        return {target: final for target, final in finals if final is not None}

    def _write_requests(self, made: dict[Target, ComposedValue]) -> list[WriteRequest]:
        return [WriteRequest(each, m.value, not self._claims.of(each)) for each, m in made.items()]

    def _resolver(self, exceeds: Callable[[Target], bool]) -> ValueResolver:
        board, version = self._claims, self._settings.version
        return ValueResolver(version, board.of, self._original, self._writers.held, exceeds)

    def _original(self, target: Target) -> Value | None:
        # What waits for its owner to come back still says what that owner wanted.
        waits = target in self._orphans and not self._claims.of(target)
        return None if waits else self._journal.original(target)

    # -- journal -------------------------------------------------------------------------------

    def _journalled(self, due: list[Target], now: float) -> list[Target]:
        """Those of the targets whose original is safe on disk; the others fail or are over."""
        ready, new = [], []
        for target in due:
            if target in self._journal:
                self._derive(target)
                ready.append(target)
            elif self._claims.of(target):
                new.append(target)
            else:
                self._over(target)
        gone: set[tuple[str, str]] = set()
        originals = [(t, v) for t in new if (v := self._first_look(t, now, gone)) is not None]
        self._journal.add(originals)
        taken = [target for target, _ in originals]
        try:
            if not self._settings.dry_run:
                self._journal.commit()
        except OSError as error:
            self._journal.drop(taken)
            for target in taken:
                self._fail(target, from_error(error, "journal: "), now)
            return ready
        return sorted(ready + taken)

    def _derive(self, target: Target) -> None:
        """Brings an original up to date: a pod may have got another limit since it was taken up."""
        claimed = bool(self._claims.of(target))
        before = self._journal.original(target)
        if before is not None and (not claimed or target.resource == QUOTA):
            self._journal.replace(target, self._baseline(target, before))

    def _first_look(self, target: Target, now: float, gone: set[tuple[str, str]]) -> Value | None:
        """What a file says before it is written.

        Of a cgroup that is gone one file is looked for: a pod may have thousands of containers.
        ``gone`` has those of this round by hierarchy and directory.
        """
        place, above = place_of(target), parent_of(target.directory)
        if place in gone or (above is not None and (place[0], above) in gone):
            gone.add(place)
            self._fail(
                target, Written(Outcome.MISSING, errno.ENOENT, f"{target}: no cgroup"), now, True
            )
            return None
        try:
            faults.point("executor.first_look")
            held = self._writers.writer_of(target.resource).original(target)
        except (OSError, ValueError) as error:
            if self._writers.is_absent(target):
                self._skip(target, now)
            elif self._fail(target, from_error(error), now):
                gone.add(place)
            return None
        return self._baseline(target, self._uninherited(target, held))

    def _uninherited(self, target: Target, held: Value) -> Value:
        """What a new cgroup would say, had its parent not been written when it was made."""
        above = parent_of(target.directory)
        while target.resource in INHERITED and above is not None:
            parent = Target(target.resource, above)
            if parent in self._journal and self._writers.held(parent) == held:
                return self._journal.original(parent) or held
            above = parent_of(above)
        return held

    def _commit_quietly(self) -> None:
        error = ""
        try:
            if not self._settings.dry_run:
                self._journal.commit()
        except OSError as failure:
            # What is on disk names more than is still to be given back, which does no harm.
            error = one_line(str(failure))
        if error and error != self._uncommitted:
            _LOG.warning("journal not written", extra=log.fields(error=error))
        self._uncommitted = error

    # -- writing -------------------------------------------------------------------------------

    def _note(
        self, request: WriteRequest, made: ComposedValue, result: Written, now: float
    ) -> None:
        target = request.target
        if result.outcome is Outcome.MISSING and self._writers.is_gone(target):
            self._forget(target)
            return
        if result.outcome not in (Outcome.UNCHANGED, Outcome.WRITTEN):
            # A file that is missing may come back: what it said is then still to be given back.
            missing = result.outcome is Outcome.MISSING and not request.giving_back
            if result.outcome is not Outcome.FAILED and not missing:
                self._journal.drop([target])
                self._last_values.forget(target)
            if target in self._journal or not request.giving_back:
                self._fail(target, result, now)
            else:
                self._over(target)
            return
        if result.outcome is Outcome.WRITTEN:
            by_hand = self._last_values.get(target) == made.value
            self._reporter(write_events.ValueWritten(target, made, by_hand, request.giving_back))
        self._last_values.note(target, made.value)
        self._failures.passed(target)
        if not request.giving_back:
            return
        if made.value == self._journal.original(target):
            self._journal.drop([target])
            self._over(target)
        else:
            waits = Written(Outcome.FAILED, 0, f"{target}: {made.reason}")
            self._fail(target, waits, now)

    def _fail(self, target: Target, result: Written, now: float, known_gone: bool = False) -> bool:
        """Takes a failure up; gives whether the cgroup is gone, which may be known already."""
        missing = result.outcome is Outcome.MISSING
        gone = known_gone or (missing and self._writers.is_gone(target))
        if result.outcome is Outcome.MISSING and not gone:
            result = result._replace(outcome=Outcome.FAILED)
        failure = self._failures.failed(target, result, now)
        if not gone:
            self._reporter(write_events.WriteFailed(target, failure))
        elif failure.attempts == 1:
            self._targets_gone = True
            self._reporter(write_events.CgroupGone(target))
        return gone

    def _forget(self, target: Target) -> None:
        """Gives up what went with its cgroup; who wants it in a new one claims it again."""
        self._journal.drop([target])
        self._claims.forget(target)
        self._over(target)
        self._reporter(write_events.CgroupGone(target))

    def _skip(self, target: Target, now: float) -> None:
        """A file that this kernel does not have: told of once, however many cgroups want it."""
        if target.resource not in self._absent_files:
            self._absent_files.add(target.resource)
            _LOG.info("not in this kernel", extra=log.fields(file=target.resource))
        why = f"this kernel has no {target.resource}"
        self._failures.failed(target, Written(Outcome.UNSUPPORTED, errno.ENOENT, why), now)

    def _over(self, target: Target) -> None:
        self._targets_gone = True
        self._failures.passed(target)
        self._last_values.forget(target)

    def _plan(self, requests: list[WriteRequest], made: dict[Target, ComposedValue]) -> None:
        for request in requests:
            if self._last_values.get(request.target) != request.value:
                self._last_values.note(request.target, request.value)
                if self._writers.held(request.target) != request.value:
                    composed = made[request.target]
                    self._reporter(
                        write_events.WritePlanned(request.target, composed, request.giving_back)
                    )
            if request.giving_back:
                self._journal.drop([request.target])
                self._over(request.target)

    # -- claims --------------------------------------------------------------------------------

    def _check(self, target: Target, claim: Claim, value: str | float) -> None:
        kind = self._writers.writer_of(target.resource)
        if isinstance(value, float):
            return
        if why := kind.refusal(target, value):
            raise KoordError(f"claim {target}", "", claim.value, why)
