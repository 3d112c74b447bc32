# SPDX-License-Identifier: Apache-2.0
"""``koord check --from koordinator``: what changes when its programs become koord's."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from koord.base.errors import KoordError
from koord.check.original.change import Effect
from koord.check.original.programs import ProgramReaders
from koord.cli.daemons import descheduler, koordlet, manager, scheduler
from koord.cli.terminal.output import say

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from koord.base.feature_gates import FeatureGates
    from koord.check.live_cluster import LiveCluster
    from koord.check.original.change import ComponentChanges
    from koord.check.original.installation import RunningProgram
    from koord.check.original.report import MovingReport

# Of the words for effects, so that what they are about stands in one column.
_EFFECT_WIDTH = max(map(len, Effect)) + 1


def run(files: Sequence[str], cluster: LiveCluster | None) -> MovingReport:
    """Reads the installation and compares.

    Args:
        files: manifests, such as a rendered chart; none with a cluster.
        cluster: where it runs.

    Raises:
        KoordError: neither or both of them, or a file cannot be read.
        ApiError, ConnectionError: of the cluster.
    """
    from koord.check import file_reader
    from koord.check.original.report import report
    from koord.check.original.sources import ClusterInstallation, FileInstallation

    if bool(files) == (cluster is not None):
        given = "both" if files else "neither"
        raise KoordError("--from", "", given, "--cluster, or files such as a rendered chart")
    if cluster is not None:
        return report(ClusterInstallation(cluster), _readers(), _lease_of)
    subjects = []
    for name in dict.fromkeys(files):
        found = file_reader.contents(file_reader.read_bytes(name), name)
        for problem in found.problems:
            raise KoordError(name, problem.path, problem.value, problem.expected)
        subjects += found.subjects
    return report(FileInstallation(subjects), _readers(), _lease_of)


def as_json(report: MovingReport) -> dict[str, Any]:
    """As ``-o json`` has it."""
    return {
        "components": [each.as_json() for each in report.components],
        "effects": {each.value: report.count(each) for each in Effect},
    }


def show(report: MovingReport) -> None:
    """Prints it for people."""
    for component in report.components:
        say(f"{component.name}  {component.source}".rstrip())
        for text, number in _lines(component).items():
            times = "" if number == 1 else f" ({number} times)"
            say(f"  {text}{times}", hanging=_EFFECT_WIDTH + 1)
        if not component.changes:
            say("  nothing changes")
        say()
    counts = ", ".join(f"{report.count(each)} {each}" for each in Effect)
    say(counts)


def _lines(component: ComponentChanges) -> Counter[str]:
    return Counter(
        f"{each.effect:{_EFFECT_WIDTH}} {each.subject}: {each.why}" for each in component.changes
    )


def _readers() -> Mapping[str, ProgramReaders]:
    from koord.agent import unused_flags as koordlet_flags
    from koord.agent.feature_gates import feature_gates as koordlet_gates
    from koord.controllers.descheduler import unused_flags as descheduler_flags
    from koord.controllers.descheduler.feature_gates import feature_gates as descheduler_gates
    from koord.controllers.manager import unused_flags as manager_flags
    from koord.controllers.scheduler import unused_flags as scheduler_flags
    from koord.controllers.scheduler.feature_gates import feature_gates as scheduler_gates

    return {
        scheduler.NAME: ProgramReaders(
            scheduler_flags.UNUSED, scheduler.check_flags, scheduler_gates, _scheduler_file
        ),
        manager.NAME: ProgramReaders(manager_flags.UNUSED, _parsed(manager.parse), _manager_gates),
        descheduler.NAME: ProgramReaders(
            descheduler_flags.UNUSED, _parsed(descheduler.parse), descheduler_gates,
            _descheduler_file,
        ),
        koordlet.NAME: ProgramReaders(koordlet_flags.UNUSED, _koordlet, koordlet_gates),
    }  # fmt: skip


def _parsed(parse: Callable[[Sequence[str]], object]) -> Callable[[Sequence[str]], None]:
    def check(arguments: Sequence[str]) -> None:
        parse(arguments)

    return check


def _koordlet(arguments: Sequence[str]) -> None:
    # Its name comes from the environment.
    koordlet.parse(["--node-name=node", *arguments])


def _manager_gates(text: str) -> FeatureGates:
    return manager.parse([f"--feature-gates={text}"])[0].gates()


def _scheduler_file(document: object, source: str) -> Sequence[str]:
    from koord.controllers.scheduler.config.load import decode
    from koord.controllers.scheduler.registry import Registry

    return decode(document, source, Registry()).warnings


def _descheduler_file(document: object, source: str) -> Sequence[str]:
    from koord.controllers.descheduler.config.load import decode
    from koord.controllers.descheduler.framework.registry import PluginRegistry

    return decode(document, source, PluginRegistry()).warnings


def _lease_of(program: RunningProgram, configuration: str | None) -> tuple[str, str] | None:
    """The Lease that a program leads by: of its configuration, or of its flags."""
    from koord.controllers.manager.app import LEASE

    if program.name == manager.NAME:
        return LEASE, program.flag("leader-election-namespace") or program.namespace
    if configuration is None:
        return None
    return _configured_lease(program, configuration)


def _configured_lease(program: RunningProgram, configuration: str) -> tuple[str, str] | None:
    from koord.base.documents import parse_documents
    from koord.controllers.descheduler.config.load import decode as descheduler_file
    from koord.controllers.descheduler.framework.registry import PluginRegistry
    from koord.controllers.scheduler.config.load import decode as scheduler_file
    from koord.controllers.scheduler.registry import Registry

    try:
        (document,) = parse_documents(configuration, program.source)
        if program.name == scheduler.NAME:
            election = scheduler_file(document, "", Registry()).leader_election
        elif program.name == descheduler.NAME:
            election = descheduler_file(document, "", PluginRegistry()).leader_election
        else:
            return None
    except (KoordError, ValueError):
        return None
    return election.resource_name, election.resource_namespace
