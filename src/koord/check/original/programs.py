# SPDX-License-Identifier: Apache-2.0
"""What becomes of a program's flags, feature gates and configuration file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from koord.base.documents import decode_text, parse_documents
from koord.base.errors import KoordError
from koord.check.original.change import Effect, MovingChange

if TYPE_CHECKING:
    from koord.base.feature_gates import FeatureGates
    from koord.check.original.installation import RunningProgram

ConfigReader = Callable[[object, str], Sequence[str]]
"""Reads a parsed configuration file; gives the lines on what of it has no effect.

The second argument is what to call it in errors. It raises a KoordError.
"""
TextReader = Callable[[str, str, str], str | None]
"""The text of a ConfigMap's key, by namespace, name and key; None where there is none."""

_MEANWHILE = "koord has no program of that name: {}; it may go on beside koord"
WITHOUT_COUNTERPART: Mapping[str, str] = {
    "koord-device-daemon": _MEANWHILE.format("koordlet reports GPUs and RDMA itself"),
    "koord-runtime-proxy": "koord's takes the same flags; either may go on with either koordlet",
}
"""Program of the original to what koord has instead."""
_EFFECT = re.compile(r"(.*?) ha(?:s|ve) no effect(?:: (.*))?", re.DOTALL)


class ProgramReaders(NamedTuple):
    """How koord's program of that name reads what the original's is given.

    Args:
        unused: flags that it takes and that do nothing, with why.
        parse: reads the other arguments; raises a KoordError.
        gates: reads ``--feature-gates``; raises a KoordError.
        configuration: reads the file of ``--config``; None for a program without one.
    """

    unused: Mapping[str, str]
    parse: Callable[[Sequence[str]], None]
    gates: Callable[[str], FeatureGates]
    configuration: ConfigReader | None = None


def of_program(
    program: RunningProgram, readers: ProgramReaders, text_of: TextReader
) -> Iterator[MovingChange]:
    """What is otherwise when koord's program gets the same flags and the same file."""
    yield from _flags(program, readers)
    yield from _gates(program, readers)
    path = program.flag("config")
    if readers.configuration is not None and path:
        yield from _configuration(program, path, readers.configuration, text_of)


def _flags(program: RunningProgram, readers: ProgramReaders) -> Iterator[MovingChange]:
    for word in program.arguments:
        name = word.lstrip("-").partition("=")[0]
        if word.startswith("-") and name in readers.unused:
            yield MovingChange(Effect.IGNORED, f"--{name}", readers.unused[name])
    if any("$(" in word for word in program.arguments):
        yield MovingChange(
            Effect.NOTE, "flags", "what the kubelet fills in, $(...), is not looked at"
        )
        return
    try:
        readers.parse(program.arguments)
    except KoordError as error:
        yield MovingChange.refused("flags", error)


def _gates(program: RunningProgram, readers: ProgramReaders) -> Iterator[MovingChange]:
    text = program.flag("feature-gates")
    if not text:
        return
    try:
        gates = readers.gates(text)
    except KoordError as error:
        yield MovingChange.refused("--feature-gates", error)
        return
    said = {each.name: each.doc.removeprefix("no effect: ") for each in gates.known()}
    for name in gates.without_effect():
        yield MovingChange(Effect.IGNORED, f"gate {name}", said[name])


def _configuration(
    program: RunningProgram, path: str, read: ConfigReader, text_of: TextReader
) -> Iterator[MovingChange]:
    place = program.config_map(path)
    if place is None:
        yield MovingChange(
            Effect.NOTE, f"--config={path}", "not of a ConfigMap: look at the file itself"
        )
        return
    title = f"ConfigMap {place[0]}"
    text = text_of(program.namespace, *place)
    if text is None:
        yield MovingChange(Effect.NOTE, title, f"has no key {place[1]}, or may not be read")
        return
    try:
        documents = parse_documents(decode_text(text.encode(), title), title)
        lines = read(documents[0] if documents else None, title)
    except KoordError as error:
        yield MovingChange.refused(title, error)
        return
    for line in lines:
        match = _EFFECT.fullmatch(line.removeprefix(f"{title}: "))
        subject, why = match.groups() if match else (title, line)
        yield MovingChange(Effect.IGNORED, subject, why or "koord has nothing that it would set")
