# SPDX-License-Identifier: Apache-2.0
"""Flags of koord's daemons in the containers that run them, read by the daemons' own parsers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.base.errors import KoordError
from koord.check.problem import Finding
from koord.check.registry import checker
from koord.cli.daemons import koordlet, manager

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from koord.check.object_index import ObjectIndex
    from koord.check.subject import Subject

# These print something and end the program.
_HELP = ("-h", "--help", "-help", "--version", "-version")


def _koordlet(arguments: Sequence[str]) -> None:
    # Its name comes from the environment.
    options = koordlet.parse(["--node-name=node", *arguments])[0]
    options.gates()


def _manager(arguments: Sequence[str]) -> None:
    manager.parse(arguments)[0].gates()


_PROGRAMS: dict[str, Callable[[Sequence[str]], None]] = {
    koordlet.NAME: _koordlet,
    manager.NAME: _manager,
}


def register() -> None:
    """Adds the checker of flags."""
    checker("Pod", "")(program_flags)


def program_flags(subject: Subject, world: ObjectIndex) -> Iterator[Finding]:
    """Flags that a program does not know, and values that it refuses."""
    del world
    spec = subject.document.get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    for index, container in enumerate(containers if isinstance(containers, list) else ()):
        if isinstance(container, dict):
            yield from _of_container(container, f"spec.containers[{index}]")


def _of_container(container: dict[str, Any], path: str) -> Iterator[Finding]:
    words = [
        (f"{path}.{part}[{index}]", word)
        for part in ("command", "args")
        for index, word in enumerate(_texts(container.get(part)))
    ]
    if not container.get("command"):
        image = str(container.get("image")).partition("@")[0].rpartition("/")[2].partition(":")[0]
        words.insert(0, ("", image))
    program = _PROGRAMS.get(words[0][1].rpartition("/")[2]) if words else None
    # What the kubelet fills in is not known before.
    if program is None or any("$(" in word or word in _HELP for _, word in words):
        return
    try:
        program([word for _, word in words[1:]])
    except KoordError as error:
        said = str(error.value)
        flag = error.object_name if error.object_name.startswith("-") else said.rpartition(": ")[2]
        name = flag.lstrip("-").partition("=")[0]
        where = (at for at, word in words[1:] if word.lstrip("-").partition("=")[0] == name)
        yield Finding(next(where, path), error.value, error.expected)


def _texts(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else []
