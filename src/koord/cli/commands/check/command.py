# SPDX-License-Identifier: Apache-2.0
"""``koord check``: what is wrong with manifests and configuration before they are applied."""

from __future__ import annotations

import asyncio
import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from koord.base.errors import KoordError, MissingExtraError, one_line, value_text
from koord.cli.commands.crds import ContextOption, KubeconfigOption
from koord.cli.terminal.output import Format, OutputOption, print_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from koord.check.live_cluster import LiveCluster
    from koord.check.runner import CheckReport

_EXIT_WITH_PROBLEMS = 1
_ORIGINAL = "koordinator"
_MOST_KINDS = 10
_LONGEST_VALUE = 1000


def check(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="YAML or JSON; - for standard input"),
    ] = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    cluster: Annotated[
        bool,
        typer.Option(
            "--cluster",
            help="look up what the files refer to; so do --kubeconfig and --context",
        ),
    ] = False,
    origin: Annotated[
        str,
        typer.Option(
            "--from",
            metavar=_ORIGINAL,
            help="say what changes when the programs of that installation, in the "
            "cluster or in the files, become koord's",
        ),
    ] = "",
    strict: Annotated[
        bool, typer.Option("--strict", help="warnings count as errors for the exit status")
    ] = False,
    output: OutputOption = Format.TEXT,
) -> None:
    """Say what is wrong with manifests before they are applied.

    Knows Kubernetes' kinds and koord's, the labels and annotations of pods,
    pod templates and nodes, slo-controller-config, quota trees and the
    configuration of koord's programs. Nothing is written anywhere.

    With --from koordinator it reads an installation of it and says component by
    component what koord ignores, does otherwise or refuses: errors are what it
    refuses, warnings what differs.

    Exit status:
      0  no errors; with --strict, no warnings either
      1  errors
      2  a file or the cluster cannot be read

    Example: koord check quotas/*.yaml && kubectl apply -f quotas
    """
    try:
        with named_cluster(kubeconfig, context, cluster) as live:
            if origin:
                raise typer.Exit(_moving(origin, files or [], live, strict, output))
            from koord.check.runner import check as run
            from koord.cli.commands import container_flags

            container_flags.register()
            report = run(_named(files), live)
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("koord"):
            raise
        raise MissingExtraError(error.name, "sim") from None
    if output is Format.JSON:
        print_json(_document(report))
    else:
        _print(report)
    from koord.check.problem import Severity

    wrong = report.count(Severity.ERROR) + (report.count(Severity.WARNING) if strict else 0)
    if wrong:
        raise typer.Exit(_EXIT_WITH_PROBLEMS)


def _named(files: list[str] | None) -> list[str]:
    if not files:
        raise KoordError("FILE", "", "", "the name of a file, or --from koordinator --cluster")
    return files


def _moving(
    origin: str, files: list[str], live: LiveCluster | None, strict: bool, output: Format
) -> int:
    from koord.check.original.change import Effect
    from koord.cli.commands.check import moving

    if origin != _ORIGINAL:
        raise KoordError("--from", "", origin, _ORIGINAL)
    found = moving.run(files, live)
    if output is Format.JSON:
        print_json(moving.as_json(found))
    else:
        moving.show(found)
    wrong = found.count(Effect.REFUSED) + (found.count(Effect.DIFFERS) if strict else 0)
    return _EXIT_WITH_PROBLEMS if wrong else 0


@contextmanager
def named_cluster(
    kubeconfig: Path | None, context: str | None, wanted: bool
) -> Iterator[LiveCluster | None]:
    """The cluster that is named, if one is; what it refuses ends the check."""
    if kubeconfig is None and context is None and not wanted:
        yield None
        return
    from koord.check.live_cluster import LiveCluster
    from koord.kube.client import Client
    from koord.kube.errors import ApiError
    from koord.kube.requests.retry import RetryPolicy
    from koord.kube.transport.credentials import load_cluster_config
    from koord.kube.transport.http import HttpTransport

    with asyncio.Runner() as runner:
        transport = HttpTransport(load_cluster_config(kubeconfig, context))
        try:
            # Somebody waits: a cluster that is not there is told of soon.
            yield LiveCluster(runner, Client(transport, "koord", policy=RetryPolicy(attempts=3)))
        except (ApiError, ConnectionError) as error:
            raise KoordError("cluster", "", one_line(str(error)), "an answer") from None
        finally:
            runner.run(transport.close())


def _print(report: CheckReport) -> None:
    from koord.check.problem import Severity

    for problem in report.problems:
        print(problem)
    if report.unread:
        kinds = sorted(report.unread)
        more = f" and {len(kinds) - _MOST_KINDS} more" if len(kinds) > _MOST_KINDS else ""
        print(one_line(f"not read by koord: {', '.join(kinds[:_MOST_KINDS])}{more}"))
    errors, warnings = report.count(Severity.ERROR), report.count(Severity.WARNING)
    print(
        f"{_plural(report.objects, 'object')} in {_plural(report.files, 'file')}: "
        f"{_plural(errors, 'error')}, {_plural(warnings, 'warning')}"
    )


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _document(report: CheckReport) -> dict[str, Any]:
    from koord.check.problem import Severity

    return {
        "files": report.files,
        "objects": report.objects,
        "errors": report.count(Severity.ERROR),
        "warnings": report.count(Severity.WARNING),
        "unread": dict(sorted(report.unread.items())),
        "problems": [
            {
                "file": each.file,
                "line": each.line,
                "severity": each.severity,
                "object": each.title,
                "path": each.path,
                "value": _value(each.value),
                "expected": each.expected,
            }
            for each in report.problems
        ],
    }


def _value(value: object) -> Any:
    """A value as JSON; as text, which is cut, where it has no such form or is long."""
    import msgspec

    try:
        encoded = msgspec.json.encode(value, enc_hook=str)
    except (msgspec.EncodeError, TypeError, ValueError):
        return value_text(value)
    if len(encoded) > _LONGEST_VALUE or (isinstance(value, float) and not math.isfinite(value)):
        return value_text(value)
    return msgspec.json.decode(encoded)
