# SPDX-License-Identifier: Apache-2.0
"""Command lines of daemons that take a Go program's flags: a flag for each field of a dataclass.

A field is annotated with its type and the text of ``--help``; floats are durations in seconds.
argparse and not typer: an agent is on every node, and typer with what it needs takes 11 MiB.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, get_args, get_type_hints

from koord.base import log
from koord.base.errors import KoordError
from koord.cli.values import seconds, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from koord.base.gates import FeatureGates

_MOST = 2**62
# A letter and more: Go takes -name for --name. A level may stand right behind -v.
_ONE_DASH = re.compile(r"-(?!v[=0-9])[a-z][-_a-z]", re.ASCII)


def parser(
    program: str, description: str, example: str, options: type[Any], unused: Collection[str]
) -> argparse.ArgumentParser:
    """A parser with a flag for every field of the options, ``--kubeconfig`` and ``-v``.

    Args:
        program: its name.
        description: for ``--help``.
        example: for ``--help``.
        options: a dataclass, all of whose fields have defaults.
        unused: flags that are taken and do nothing.
    """
    made = _Parser(
        program,
        usage=f"{program} [FLAG]...",
        description=description,
        epilog=example,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("--kubeconfig", metavar="FILE", type=Path, help="how to reach the cluster")
    made.add_argument(
        "-v", "--v", dest="verbosity", metavar="LEVEL", type=whole_number("-v", 0, 9), default=2,
        help="of the log: 0 to 9 (default: 2)",
    )  # fmt: skip
    hints = get_type_hints(options, include_extras=True)
    for name, default in vars(options()).items():
        kind, text = get_args(hints[name])
        _add(made, name, kind, text, default)
    for name in unused:
        made.add_argument(f"--{name}", dest=f"unused {name}", nargs="?", help=argparse.SUPPRESS)
    return made


def two_dashes(arguments: Sequence[str]) -> list[str]:
    """Flags of Go programs may begin with one dash; ``-v`` and ``-h`` stay as they are."""
    return [f"-{word}" if _ONE_DASH.match(word) else word for word in arguments]


def without_effect(arguments: Sequence[str], unused: Collection[str]) -> list[str]:
    """The flags among the arguments that do nothing here, sorted."""
    names = (word.removeprefix("--").partition("=")[0] for word in two_dashes(arguments))
    return sorted({name for name in names if name in unused})


def warn(component: str, names: Sequence[str]) -> None:
    """Tells of flags that do nothing, in one warning."""
    if names:
        fields = log.fields(flags=" ".join(names), why="see docs/compatibility.md")
        log.get(component).warning("flags without effect here", extra=fields)


def warn_of_gates(component: str, gates: FeatureGates) -> None:
    """Tells of feature gates that were set and do nothing, in one warning."""
    names = gates.without_effect()
    if names:
        fields = log.fields(gates=" ".join(names), why="see docs/compatibility.md")
        log.get(component).warning("feature gates without effect here", extra=fields)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise KoordError(self.prog, "", message, f"flags as {self.prog} --help lists them")


def _add(to: argparse.ArgumentParser, name: str, kind: type, text: str, default: Any) -> None:
    flag = f"--{name.replace('_', '-')}"
    if kind is bool:
        shown = str(default).lower()
        to.add_argument(
            flag, dest=name, metavar="BOOL", nargs="?", const=True, default=default,
            type=_truth(flag), help=f"{text} (default: {shown})",
        )  # fmt: skip
        return
    read: Callable[[str], Any] = str
    metavar, shown = "TEXT", str(default)
    if kind is float:
        metavar, read, shown = "10s", seconds(flag), f"{default:g}s"
    elif kind is int:
        metavar, read = "N", whole_number(flag, 0, _MOST)
    to.add_argument(
        flag, dest=name, metavar=metavar, type=read, default=default,
        help=f"{text} (default: {shown})" if shown else text,
    )  # fmt: skip


def _truth(flag: str) -> Callable[[str], bool]:
    def read(text: str) -> bool:
        if text not in ("true", "false"):
            raise KoordError(flag, "", text, "true or false")
        return text == "true"

    return read
