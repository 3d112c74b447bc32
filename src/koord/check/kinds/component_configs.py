# SPDX-License-Identifier: Apache-2.0
"""Configuration files of koord's programs, read by the programs' own readers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from koord.base.errors import KoordError
from koord.check.field_location import locate
from koord.check.problem import Finding
from koord.check.registry import checker

if TYPE_CHECKING:
    from koord.check.object_index import ObjectIndex
    from koord.check.subject import Subject

Reader = Callable[[dict[str, Any], str], Iterator[Finding]]

_NO_EFFECT = re.compile(r"(?:(\w+): )?(.*?) ha(?:s|ve) no effect: (.*)", re.DOTALL)


def scheduler(document: dict[str, Any], source: str) -> Iterator[Finding]:
    """A KubeSchedulerConfiguration, the arguments of koord's plugins and of others included."""
    from koord.controllers.scheduler.config.load import decode
    from koord.controllers.scheduler.registry import Registry

    try:
        found = decode(document, source, Registry())
    except KoordError as error:
        yield _finding(error, document)
        return
    yield from _without_effect(found.warnings, document, source)


def descheduler(document: dict[str, Any], source: str) -> Iterator[Finding]:
    """A DeschedulerConfiguration or DeschedulerPolicy, its plugins' arguments included."""
    from koord.controllers.descheduler.config.load import decode
    from koord.controllers.descheduler.framework.registry import PluginRegistry

    try:
        found = decode(document, source, PluginRegistry())
    except KoordError as error:
        yield _finding(error, document)
        return
    yield from _without_effect(found.warnings, document, source)


def node_pools(document: dict[str, Any], source: str) -> Iterator[Finding]:
    """Nodes for ``koord up``."""
    from koord.base import config
    from koord.simulator.nodes import pools

    try:
        kinds = {(pools.API_VERSION, pools.KIND): pools.NodePools}
        pools.check(config.decode(kinds, document, source), source)
    except KoordError as error:
        yield _finding(error, document)


def scenario(document: dict[str, Any], source: str) -> Iterator[Finding]:
    """A day for ``koord simulate colocation``."""
    from koord.simulator.colocation.inputs.scenario_file import decode

    try:
        decode(document, source)
    except KoordError as error:
        yield _finding(error, document)


def _without_effect(
    warnings: Iterable[str], document: dict[str, Any], source: str
) -> Iterator[Finding]:
    """What a reader takes, and does nothing with."""
    for line in warnings:
        match = _NO_EFFECT.fullmatch(line.removeprefix(f"{source}: "))
        if match is not None:
            within, name, why = match.groups()
            path = name if within is None else f"{within}.{name}"
            yield Finding.warning(path if path in document else "", name,
                                  f"nothing: it has no effect, {why}")  # fmt: skip


def _finding(error: KoordError, document: dict[str, Any]) -> Finding:
    """An error of a strict reader, which tells of an unknown key where its mapping stands."""
    path = "" if error.field == "document" else error.field
    location = locate(document, None, path)
    key = error.value
    if location.is_whole and isinstance(location.value, dict) and isinstance(key, str):
        path = f"{path}.{key}".removeprefix(".") if key in location.value else path
    return Finding(path, key, error.expected)


KINDS: dict[str, Reader] = {
    "KubeSchedulerConfiguration": scheduler,
    "DeschedulerConfiguration": descheduler,
    "DeschedulerPolicy": descheduler,
    "NodePools": node_pools,
    "Scenario": scenario,
}
"""Kind to the reader of its configuration."""


def _register(kind: str, reader: Reader) -> None:
    def configuration(subject: Subject, world: ObjectIndex) -> Iterator[Finding]:
        del world
        return reader(subject.document, subject.title)

    checker(kind)(configuration)


for _kind, _reader in KINDS.items():
    _register(_kind, _reader)
