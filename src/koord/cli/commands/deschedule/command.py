# SPDX-License-Identifier: Apache-2.0
"""``koord deschedule``: what the descheduler would do, before it does it."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from koord.api.codec import to_json
from koord.api.kinds.registry import KINDS
from koord.api.objects import read_manifests
from koord.base.errors import Code, KoordError, MissingExtraError
from koord.cli.commands.check.command import named_cluster
from koord.cli.commands.crds import ContextOption, KubeconfigOption
from koord.cli.help.typer_help import TyperApp
from koord.cli.terminal.output import Format, OutputOption, print_json, refuse_beside

if TYPE_CHECKING:
    from koord.controllers.descheduler.planning.plan import RoundPlan
    from koord.controllers.descheduler.planning.snapshot_objects import SnapshotObjects

app = TyperApp()
_FAILED = 1

SnapshotOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--snapshot", metavar="FILE", help="manifests of nodes, pods, NodeMetrics and so on"
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="DeschedulerConfiguration or DeschedulerPolicy",
        show_default="LowNodeLoad, as shipped",
    ),
]
SchedulerConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--scheduler-config",
        metavar="FILE",
        help="the scheduler's KubeSchedulerConfiguration",
        show_default="koord's own",
    ),
]


@app.callback()
def group() -> None:
    """Verbs of this group."""


@app.command()
def plan(
    snapshot: SnapshotOption = None,
    config: ConfigOption = None,
    scheduler_config: SchedulerConfigOption = None,
    one_by_one: Annotated[
        bool, typer.Option("--one-by-one", help="evict as strategies say, wherever pods go")
    ] = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Work out a round of the descheduler as a whole, and print it.

    Says which pods would move where and in which order, what it gains, and
    which pods stay and why. Pods land where the scheduler's own filters and
    scores put them, earlier moves counted. Nothing is evicted.

    Exit status:
      0  done
      1  a strategy failed
      2  a file or the cluster cannot be read

    Example: koord deschedule plan --snapshot cluster.yaml --config descheduler.yaml
    """
    if snapshot:
        refuse_beside("--snapshot", {"--kubeconfig": kubeconfig, "--context": context})
    if one_by_one:
        refuse_beside("--one-by-one", {"--scheduler-config": scheduler_config})
    made = _made(snapshot, config, scheduler_config, one_by_one, kubeconfig, context)
    if output is Format.JSON:
        print_json(json.loads(to_json(made)))
    else:
        from koord.cli.commands.deschedule.plan_text import show_plan

        show_plan(made)
    if made.errors:
        raise typer.Exit(_FAILED)


def _made(
    snapshot: list[Path] | None,
    config: Path | None,
    scheduler_config: Path | None,
    one_by_one: bool,
    kubeconfig: Path | None,
    context: str | None,
) -> RoundPlan:
    try:
        from koord.controllers.descheduler.planning import preparation
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("koord"):
            raise
        raise MissingExtraError(error.name, "sim") from None
    configuration = preparation.read_configuration(config)
    objects = _read(snapshot) if snapshot else _listed(kubeconfig, context)
    seconds = objects.seconds()
    return asyncio.run(
        preparation.plan_snapshot(
            configuration,
            objects,
            time.time() if seconds is None else seconds,
            scheduler_config,
            one_by_one=one_by_one,
        )
    )


def _read(files: list[Path]) -> SnapshotObjects:
    from koord.controllers.descheduler.planning.snapshot_objects import SnapshotObjects

    objects = [each for path in files for each in read_manifests(path)]
    return SnapshotObjects.of(objects, ", ".join(map(str, files)))


def _listed(kubeconfig: Path | None, context: str | None) -> SnapshotObjects:
    """All objects of a cluster that plugins may look at."""
    from koord.controllers.descheduler.planning.snapshot_objects import SnapshotObjects

    with named_cluster(kubeconfig, context, wanted=True) as live:
        if live is None:
            raise KoordError("cluster", "", None, "a cluster, or --snapshot", Code.NOT_FOUND)
        objects = [each for kind in KINDS if kind.name not in _UNREAD for each in live.all(kind)]
    return SnapshotObjects.of(objects, "the cluster")


_UNREAD = frozenset({"Event", "Lease", "Secret", "ConfigMap", "CustomResourceDefinition"})
"""Kinds that neither strategies nor the scheduler's plugins look at."""
