# SPDX-License-Identifier: Apache-2.0
"""Everything that has histories: state machines, the scheduler's small cluster, the agent's day."""

from __future__ import annotations

import asyncio
import importlib
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol
from unittest import mock

import hypothesis
from hypothesis import given, reproduce_failure
from hypothesis.errors import DidNotReproduce
from hypothesis.stateful import RuleBasedStateMachine, get_state_machine_test

from koord.kernels.cgroup_parse import Version
from tests.agent.day.plant import PlantFiles
from tests.agent.test_day import a_day
from tests.controllers.descheduler import planned_histories as planned_rounds
from tests.controllers.descheduler.migration import histories as migrations
from tests.controllers.scheduler.histories.cluster import History, live
from tests.controllers.scheduler.histories.steps import HISTORIES, Step, tell
from tests.controllers.webhook.histories.world import live as admission
from tests.delivery.histories import live as delivery
from tests.hostile.endurance import check_endurance
from tests.hostile.test_koordlet import check_koordlet
from tests.hostile.test_neighbours import check_neighbour
from tests.scenes.place import MissingPlaceError
from tests.soak.engine import Counter, Outcome, Over, choices_of, explore, fresh, steps_of

_TESTS = Path(__file__).resolve().parent.parent
# A morning rather than a day: a turn ends between two of them.
_DAY_ROUNDS, _DAY_STEP = 6, 120
_ATTACK_SECONDS = 30
_ADMISSION_STEPS = 200
_MIGRATION_STEPS = 25
_DELIVERY_MESSAGES = 6000


class OutdatedError(Exception):
    """A case that can be replayed by another version of hypothesis, or of the test, alone."""


class Subject(Protocol):
    """What has histories."""

    name: str

    def explore(self, over: Over) -> Outcome:
        """Runs fresh histories until time is over or one fails."""
        ...

    def replay(self, history: Any) -> None:
        """Runs a history that :meth:`explore` gave; fails as that one did.

        Raises:
            OutdatedError: it cannot be run any more.
        """
        ...


class Machine:
    """A state machine. A history: its calls, or what hypothesis drew where these say too little."""

    def __init__(self, name: str, machine: type[RuleBasedStateMachine]) -> None:
        self.name = name
        self._machine = machine
        self._settings = fresh(machine.TestCase.settings)

    def explore(self, over: Over) -> Outcome:
        """See :class:`Subject`."""

        def make(counter: Counter) -> Any:
            def began() -> RuleBasedStateMachine:
                counter.begin()
                return self._machine()

            return get_state_machine_test(began, settings=self._settings)  # type: ignore[arg-type]

        outcome = explore(make, over)
        error = outcome.error
        if error is None:
            return outcome
        return outcome._replace(history=steps_of(error) or choices_of(error))

    def replay(self, history: Any) -> None:
        """See :class:`Subject`."""
        if isinstance(history, tuple):
            self._draw_again(*history)
            return
        machine = self._machine()
        try:
            for name, arguments in history:
                getattr(machine, name)(**arguments)
        finally:
            machine.teardown()

    def _draw_again(self, version: str, choices: bytes) -> None:
        if version != hypothesis.__version__:
            raise OutdatedError(f"drawn by hypothesis {version}")
        test = get_state_machine_test(self._machine, settings=self._settings)
        try:
            reproduce_failure(version, choices)(test)()
        except DidNotReproduce as error:
            raise OutdatedError("the test draws otherwise, or passes") from error


class SmallCluster:
    """The scheduler's histories. A history: its steps."""

    name = "controllers/scheduler/test_histories"

    def explore(self, over: Over) -> Outcome:
        """See :class:`Subject`."""
        last: list[list[Step]] = []

        def make(counter: Counter) -> Any:
            @fresh()
            @given(HISTORIES)
            def whole(history: list[Step]) -> None:
                counter.begin()
                last[:] = [history]
                self.replay(history)

            return whole

        outcome = explore(make, over)
        return outcome._replace(history=last[0]) if outcome.error is not None else outcome

    def replay(self, history: Any) -> None:
        """See :class:`Subject`."""

        async def run(made: History) -> None:
            await tell(made, history)

        live(run)


class AgentDay:
    """The agent's hours. A history: seed, version of cgroups, rounds, seconds of a step."""

    name = "agent/test_day"

    def explore(self, over: Over) -> Outcome:
        """See :class:`Subject`."""
        count, draw = 0, random.SystemRandom()
        while not over():
            count += 1
            history = (draw.getrandbits(32), count % len(Version), _DAY_ROUNDS, _DAY_STEP)
            try:
                self.replay(history)
            except Exception as error:
                return Outcome(count, error, history)
        return Outcome(count)

    def replay(self, history: Any) -> None:
        """See :class:`Subject`."""
        seed, version, rounds, step = history
        files = mock.patch("koord.agent.executor.startup.NativeCgroupFiles", PlantFiles)
        with tempfile.TemporaryDirectory() as folder, files:
            a_day(Path(folder), list(Version)[version], seed, rounds, step)


class SeededHistories:
    """What is played from a seed alone. A history: seed, steps.

    Args:
        name: where the test of it stands.
        play: plays one; raises where something does not hold.
        steps: of each.
    """

    def __init__(self, name: str, play: Callable[[int, int], object], steps: int) -> None:
        self.name = name
        self._play, self._steps = play, steps

    def explore(self, over: Over) -> Outcome:
        """See :class:`Subject`."""
        count, draw = 0, random.SystemRandom()
        while not over():
            count += 1
            history = (draw.getrandbits(32), self._steps)
            try:
                self.replay(history)
            except Exception as error:
                return Outcome(count, error, history)
        return Outcome(count)

    def replay(self, history: Any) -> None:
        """See :class:`Subject`."""
        self._play(*history)


class ForkableHistories(SeededHistories):
    """What begins in a cluster that many seeds may share, see :mod:`tests.soak.seeds`.

    Args:
        module: where its histories are.
        name: of that.
    """

    def __init__(self, name: str, module: Any) -> None:
        super().__init__(name, module.live, _MIGRATION_STEPS)
        self.steps = _MIGRATION_STEPS
        self.points: tuple[str, ...] = module.POINTS
        self.shape_of, self.started = module.shape_of, module.started


class HostileTenant:
    """A neighbour beside one who attacks. A history: seed, seconds of an attack."""

    name = "hostile/test_neighbours"

    def explore(self, over: Over) -> Outcome:
        """See :class:`Subject`."""
        count, draw = 0, random.SystemRandom()
        while not over():
            count += 1
            history = (draw.getrandbits(32), _ATTACK_SECONDS)
            try:
                self.replay(history)
            except Exception as error:
                return Outcome(count, error, history)
        return Outcome(count)

    def replay(self, history: Any) -> None:
        """See :class:`Subject`."""
        seed, seconds = history
        with tempfile.TemporaryDirectory() as folder:
            check_neighbour("embedded", Path(folder), seed, seconds)


class HostileHour:
    """One cluster that is attacked for all of the turn. A history: seed, seconds."""

    name = "hostile/endurance"

    def explore(self, over: Over) -> Outcome:
        """See :class:`Subject`."""
        if over():
            return Outcome(0)
        try:
            check_endurance("embedded", random.SystemRandom().getrandbits(31), over)
        except Exception as error:
            return Outcome(1, error)  # Kept as no case: it would take the ordinary tests as long.
        return Outcome(1)

    def replay(self, history: Any) -> None:
        """See :class:`Subject`."""
        seed, seconds = history
        end = time.monotonic() + seconds
        check_endurance("embedded", seed, lambda: time.monotonic() >= end)


class HostileNode:
    """Tenants who attack koordlet. A history: seed, seconds of an attack."""

    name = "hostile/test_koordlet"

    def explore(self, over: Over) -> Outcome:
        """See :class:`Subject`."""
        count, draw = 0, random.SystemRandom()
        while not over():
            history = (draw.getrandbits(32), _ATTACK_SECONDS)
            try:
                self.replay(history)
            except MissingPlaceError as error:
                print(f"{self.name}: not here: {error}")
                return Outcome(count)
            except Exception as error:
                return Outcome(count + 1, error, history)
            count += 1
        return Outcome(count)

    def replay(self, history: Any) -> None:
        """See :class:`Subject`."""
        check_koordlet(*history)


def subjects() -> Iterator[Subject]:
    """All of them; state machines are found by what their modules say."""
    yield SmallCluster()
    yield AgentDay()
    # Admission through two replicas, migrations and planned rounds by deschedulers that fail.
    yield SeededHistories("controllers/webhook/histories", admission, _ADMISSION_STEPS)
    # Container runtimes, kubelets and proxies that send anything in any order.
    yield SeededHistories("delivery/histories", delivery, _DELIVERY_MESSAGES)
    moves = "controllers/descheduler"
    yield ForkableHistories(f"{moves}/migration/histories", migrations)
    yield ForkableHistories(f"{moves}/planned_histories", planned_rounds)
    yield HostileTenant()
    yield HostileHour()
    yield HostileNode()
    for path in sorted(_TESTS.rglob("test_*.py")):
        if path.parent.name == "soak" or "(RuleBasedStateMachine)" not in path.read_text():
            continue  # those of the soak itself are to fail
        module = ".".join(path.relative_to(_TESTS.parent).with_suffix("").parts)
        for name, found in vars(importlib.import_module(module)).items():
            own = isinstance(found, type) and found.__module__ == module
            if own and issubclass(found, RuleBasedStateMachine):
                where = path.relative_to(_TESTS).with_suffix("").as_posix()
                yield Machine(f"{where}:{name}", found)
        # Some leave a loop behind as the current one, which is closed by the next history.
        asyncio.set_event_loop(None)
