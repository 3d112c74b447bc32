# SPDX-License-Identifier: Apache-2.0
"""Command lines of daemons that take a Go program's flags: a flag for each field of a dataclass.

A field is annotated with its type and the text of ``--help``; floats are durations in seconds,
numbers that need not be whole are ``int | float``.
argparse and not typer: an agent is on every node, and typer with what it needs takes 11 MiB.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, get_args, get_type_hints

from koord.base import log
from koord.base.errors import KoordError, nearest
from koord.base.flag_pairs import ineffective
from koord.cli.options.values import rate, seconds, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from koord.base.feature_gates import FeatureGates
    from koord.base.flag_pairs import Pair
    from koord.cli.help.page import HelpPage

_MOST = 2**62
_VERBOSITY = 2
# What the value of a field of text is, by how its name ends.
_METAVARS = {
    "hooks_config_path": "DIR",
    "hooks_addr": "FILE",
    "hooks_host_endpoint": "FILE",
    "hooks_network": "unix",
    "addr": "HOST:PORT",
    "_dir": "DIR",
    "_path": "FILE",
    "_checkpoint_filepath": "DIR",
    "_ca": "FILE",
    "_file": "FILE",
    "_scope": "cluster|namespace",
    "rounds": "planned|one-by-one",
    "config_name": "NAME",
    "resource_name": "NAME",
    "plugin_name": "NAME",
    "plugin_index": "INDEX",
    "backoff_factor": "FACTOR",
    "user_name": "USER,...",
    "_namespaces": "NAMESPACE,...",
    "_bypass_labels": "KEY,...",
    "_bypass_annotations": "KEY,...",
    "address_type": "TYPE",
    "port": "P",
    "config_to": "FILE",
    "config": "FILE",
    "address": "IP",
    "node_selector": "SELECTOR",
    "_kubeconfig": "FILE",
    "_allow_paths": "PATH,...",
    "feature_gates": "GATE=BOOL,...",
    "_stages": "STAGE,...",
    "failure_policy": "Fail|Ignore",
    "controllers": "CONTROLLER,...",
    "noderesource_plugins": "PLUGIN,...",
    "sync_period": "DURATION",
    "namespace": "NAMESPACE",
    "cgroup_driver": "systemd|cgroupfs",
    "pods_from": "kubelet|apiserver",
    "resource_lock": "leases",
    "node_name": "NODE",
    "_endpoint": "SOCKET",
    "runtime_mode": "Containerd",
    "server_key": "LABEL",
    "server_val": "VALUE",
}
# A letter and more: Go takes -name for --name. A level may stand right behind -v.
_ONE_DASH = re.compile(r"-(?!v[=0-9])[a-z][-_a-z]", re.ASCII)
_NO_VALUE = re.compile(r"argument (?:-\w/)?(-\S+): expected one argument")


def parser(
    program: str,
    text: str,
    options: type[Any],
    unused: Collection[str],
    *,
    cluster: bool = True,
) -> argparse.ArgumentParser:
    """A parser with a flag for every field of the options, ``--kubeconfig``, ``-v``, ``--version``.

    Args:
        program: its name.
        text: of its help, see :mod:`koord.cli.help.page`.
        options: a dataclass, all of whose fields have defaults.
        unused: flags that are taken and do nothing.
        cluster: whether it has ``--kubeconfig``.
    """
    made = _Parser(program, allow_abbrev=False, add_help=False)
    made.page = partial(page, program, text, options, cluster=cluster)
    if cluster:
        made.add_argument("--kubeconfig", type=Path)
    made.add_argument(
        "-v", "--v", dest="verbosity", type=whole_number("-v", 0, 9), default=_VERBOSITY
    )
    made.add_argument("--version", action=_VersionAction, nargs=0)
    made.add_argument("-h", "--help", action="help")
    for name, kind, _, default in _fields(options):
        _add(made, name, kind, default)
    for name in unused:
        made.add_argument(f"--{name}", dest=f"unused {name}", nargs="?")
    return made


def page(program: str, text: str, options: type[Any], *, cluster: bool = True) -> HelpPage:
    """The page of help of a program.

    Args:
        program, text, options, cluster: as for :func:`parser`.
    """
    from koord.cli.help.page import HELP, VERSION, HelpFlag, HelpPage

    flags = [HelpFlag(("--kubeconfig",), "FILE", "how to reach the cluster")] if cluster else []
    flags.append(HelpFlag(("-v", "--v"), "LEVEL", "of the log: 0 to 9", str(_VERBOSITY)))
    for name, kind, said, default in _fields(options):
        names, bare = (_flag(name),), kind is bool
        flags.append(
            HelpFlag(names, _metavar(name, kind), said, _default_text(kind, default), bare)
        )
    return HelpPage(program, text, flags=(*flags, VERSION, HELP))


def two_dashes(arguments: Sequence[str]) -> list[str]:
    """Flags of Go programs may begin with one dash; ``-v`` and ``-h`` stay as they are."""
    return [f"-{word}" if _ONE_DASH.match(word) else word for word in arguments]


def without_effect(arguments: Sequence[str], unused: Collection[str]) -> list[str]:
    """The flags among the arguments that do nothing here, sorted."""
    return sorted({name for name in _given(arguments) if name in unused})


def refuse_pairs(
    pairs: Iterable[Pair], options: Any, arguments: Sequence[str], own: Collection[str]
) -> None:
    """Refuses flags that have no effect beside others, or without them.

    Args:
        pairs, options: see :func:`koord.base.flag_pairs.ineffective`.
        arguments: the command line.
        own: flags that only koord has; those of the original are taken, see :func:`warn_of_pairs`.

    Raises:
        KoordError: the first one.
    """
    for pair, names in ineffective(pairs, options, fields_given(arguments)):
        given = {_flag(name): _typed(getattr(options, name)) for name in names if _is(name, own)}
        if given:
            # What typer needs is loaded only here, where the program ends.
            from koord.cli.terminal.output import refuse_beside, refuse_without

            (refuse_without if pair.missing else refuse_beside)(pair.other, given)


def warn_of_pairs(
    component: str, pairs: Iterable[Pair], options: Any, arguments: Sequence[str]
) -> None:
    """Tells of flags that have no effect beside others, or without them: a warning for each cause.

    Deployments of the original name them, and go on.
    """
    for pair, names in ineffective(pairs, options, fields_given(arguments)):
        flags = " ".join(map(_flag, names))
        why = {"without" if pair.missing else "beside": pair.other}
        log.get(component).warning("flags without effect", extra=log.fields(flags=flags, **why))


def taken_out(
    arguments: Sequence[str], unused: Collection[str], switches: Collection[str]
) -> tuple[list[str], list[str]]:
    """The arguments without flags that do nothing here, and the names of those, sorted.

    Args:
        arguments: the command line.
        unused: flags that are taken and do nothing.
        switches: those of them that take a value only behind ``=``; others take the next word.
    """
    rest, names = [], set()
    words = iter(arguments)
    for word in words:
        name, equals, _ = word.removeprefix("--").partition("=")
        if not word.startswith("--") or name not in unused:
            rest.append(word)
            continue
        names.add(name)
        if not equals and name not in switches:
            next(words, None)
    return rest, sorted(names)


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


def fields_given(arguments: Sequence[str]) -> list[str]:
    """The fields whose flags are among the arguments, each once."""
    return list(dict.fromkeys(name.replace("-", "_") for name in _given(arguments)))


def _given(arguments: Sequence[str]) -> list[str]:
    """Names of flags, as often as they are there."""
    words = (word for word in two_dashes(arguments) if word.startswith("--"))
    return [word.removeprefix("--").partition("=")[0] for word in words]


def _flag(field: str) -> str:
    return f"--{field.replace('_', '-')}"


def _is(field: str, own: Collection[str]) -> bool:
    return field.replace("_", "-") in own


def _typed(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def unknown_flag(program: str, word: str, known: Collection[str]) -> KoordError:
    """What a program says of a word that is none of its flags, with the flag that was meant.

    Args:
        program: its name, with the verb.
        word: of the command line.
        known: the flags that it has, with their dashes.
    """
    name = word.partition("=")[0]
    if not name.startswith("-"):
        return KoordError(program, "", word, f"flags alone, as {program} --help lists them")
    longer = (each for each in known if each.startswith(name) and len(name) > len("--x"))
    guess = next(longer, None) or nearest(name, list(known))
    expected = f"such as {guess}" if guess else f"as {program} --help lists them"
    return KoordError(program, "", name, f"a known flag, {expected}")


class _Parser(argparse.ArgumentParser):
    page: Callable[[], HelpPage]

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """As argparse, but the word behind a flag is its value unless it is a flag, as in Go.

        argparse takes whatever begins with a dash, such as ``-3s``, for a flag.
        """
        return super().parse_known_args(
            self._joined(sys.argv[1:] if args is None else args), namespace
        )

    def _joined(self, words: Sequence[str]) -> list[str]:
        """Flags that take a value, with one that begins with a dash, as one word."""
        joined: list[str] = []
        for word in words:
            flag = self._option_string_actions.get(joined[-1]) if joined else None
            bare = word.partition("=")[0] in self._option_string_actions
            if flag and flag.nargs is None and word.startswith("-") and not bare:
                joined[-1] += f"={word}"
            else:
                joined.append(word)
        return joined

    def error(self, message: str) -> NoReturn:
        what, _, words = message.partition(": ")
        if what == "unrecognized arguments":
            known = [name for flag in self.page().flags for name in flag.names]
            raise unknown_flag(self.prog, words.partition(" ")[0], known)
        bare = _NO_VALUE.fullmatch(message)
        if bare:
            raise KoordError(bare[1], "", "", "a value")
        raise KoordError(self.prog, "", message, f"flags as {self.prog} --help lists them")

    def format_help(self) -> str:
        from koord.cli.help.page import rendered

        return f"{rendered(self.page())}\n"


class _VersionAction(argparse.Action):
    """Prints the version; looked up only where it is asked for."""

    def __call__(self, *_: Any) -> NoReturn:
        from koord.base.distributions import koord_version

        print(koord_version())
        raise SystemExit(0)


def _fields(options: type[Any]) -> Iterator[tuple[str, type, str, Any]]:
    """Name, type, text and default of each field."""
    hints = get_type_hints(options, include_extras=True)
    # What several programs have in common comes last.
    for name, default in sorted(vars(options()).items(), key=lambda each: _depth(options, each[0])):
        kind, text = get_args(hints[name])
        yield name, kind, text, default


def _depth(options: type[Any], name: str) -> int:
    """How far up a field is declared; redefined ones count where that is."""
    return next(
        at for at, each in enumerate(options.__mro__) if name in inspect.get_annotations(each)
    )


def _add(to: argparse.ArgumentParser, name: str, kind: type, default: Any) -> None:
    flag = _flag(name)
    if kind is bool:
        to.add_argument(flag, dest=name, nargs="?", const=True, default=default, type=_truth(flag))
        return
    read: Callable[[str], Any] = str
    if kind is float:
        read = seconds(flag)
    elif kind is int:
        read = whole_number(flag, 0, _MOST)
    elif kind is not str:
        read = rate(flag)
    to.add_argument(flag, dest=name, type=read, default=default)


def _metavar(name: str, kind: type) -> str:
    if kind is bool or kind is float:
        return "BOOL" if kind is bool else "DURATION"
    by_end = (end for end in _METAVARS if name.endswith(end))
    return _METAVARS.get(next(by_end, ""), "TEXT" if kind is str else "N")


def _default_text(kind: type, default: Any) -> str:
    if kind is float:
        from koord.cli.options.values import duration_text

        return duration_text(default)
    return str(default).lower() if kind is bool else str(default)


def _truth(flag: str) -> Callable[[str], bool]:
    def read(text: str) -> bool:
        if text not in ("true", "false"):
            raise KoordError(flag, "", text, "true or false")
        return text == "true"

    return read
