# SPDX-License-Identifier: Apache-2.0
"""``koord crds``: koord's definitions in a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from koord.api.definitions import GUIDE_CRD, crd_names, crds
from koord.base.errors import Code, KoordError, nearest
from koord.cli.help.typer_help import TyperApp
from koord.cli.options.values import whole_number
from koord.cli.terminal.output import (
    Format,
    OutputOption,
    print_json,
    print_table,
    progress,
    refuse_beside,
)

if TYPE_CHECKING:
    from koord.kube.client import Client
    from koord.kube.crds import DefinitionComparison, InstallResult

app = TyperApp()
T = TypeVar("T")
_SERVED_SECONDS = 60

KubeconfigOption = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig", metavar="FILE", help="how to reach the cluster", show_default="as kubectl's"
    ),
]
ContextOption = Annotated[
    str | None, typer.Option("--context", metavar="CONTEXT", help="of the kubeconfig")
]


GuideOption = Annotated[
    bool,
    typer.Option("--guide", help="with the ElasticQuota of quota.koordinator.sh too"),
]


@app.callback()
def group() -> None:
    """Install koord's CustomResourceDefinitions into a cluster, or check them."""


KindsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="KIND", help="these alone, such as reservations; by default all"),
]


@app.command()
def install(
    kinds: KindsArgument = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    guide: GuideOption = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="let the server check everything and store nothing")
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force-conflicts", help="take over fields that another manager owns"),
    ] = False,
    timeout: Annotated[
        int | None,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            parser=whole_number("--timeout", 1, 3600),
            help="how long a definition may take until it is served",
            show_default=str(_SERVED_SECONDS),
        ),
    ] = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Apply the definitions and wait until the cluster serves them.

    Server-side apply under the field manager koord: a second run changes
    nothing, a newer koord adds what is new, and what others have added stays.
    The kinds are Koordinator's. --guide adds koord's own ElasticQuota, which
    kubectl then takes the bare name elasticquota for.

    Exit status:
      0  all are there and served
      1  the cluster refuses one, or does not serve it in time

    Example: koord crds install --dry-run && koord crds install
    """
    chosen = _chosen(kinds, guide)
    if dry_run:
        refuse_beside("--dry-run", {"--timeout": timeout})
    done = with_client(
        kubeconfig,
        context,
        lambda client: _install(client, chosen, guide, output, dry_run, force, timeout),
    )
    if output is Format.JSON:
        rows = [{"name": name, "outcome": outcome} for name, outcome in done]
        print_json({"dryRun": dry_run, "definitions": rows})


@app.command()
def check(
    kinds: KindsArgument = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    guide: GuideOption = False,
    output: OutputOption = Format.TEXT,
) -> None:
    """Compare the cluster's definitions with koord's.

    A definition with more than koord knows is fine. koord's own ElasticQuota
    may be missing unless --guide asks for it.

    Exit status:
      0  koord can work with all of them
      1  one is missing, is older, or differs

    Example: koord crds check || koord crds install
    """
    from koord.kube import crds as cluster

    chosen = _chosen(kinds, guide)
    documents = [each for each in crds() if chosen is None or each["metadata"]["name"] in chosen]
    found = with_client(kubeconfig, context, lambda client: cluster.check(client, documents))
    if not guide and chosen is None:
        found = [each for each in found if (each.name, each.state) != (GUIDE_CRD, "missing")]
    fine = all(each.state.fine for each in found)
    if output is Format.JSON:
        print_json({"fine": fine, "definitions": [_json(each) for each in found]})
    else:
        rows = [[each.name, each.state, str(len(each.differences) or "-")] for each in found]
        print_table(["definition", "state", "differences"], rows)
        for each in found:
            for difference in each.differences:
                print(f"{each.name}: {difference}")
    if not fine:
        raise typer.Exit(1)


def _chosen(kinds: list[str] | None, guide: bool) -> set[str] | None:
    """The names of the definitions that are meant; None for all."""
    if not kinds:
        return None
    if guide:
        raise KoordError("--guide", "", "beside a KIND", "one of the two")
    names = crd_names()
    found: set[str] = set()
    for kind in kinds:
        by_plural = {name for name in names if name.partition(".")[0] == kind} - {GUIDE_CRD}
        if not (meant := {kind} & set(names) or by_plural):
            plurals = sorted({name.partition(".")[0] for name in names})
            guess = nearest(kind, [*plurals, *names])
            hint = f"; did you mean {guess}?" if guess else ""
            expected = f"a definition of koord's: {', '.join(plurals)}{hint}"
            raise KoordError("KIND", "", kind, expected, Code.NOT_FOUND)
        found |= meant
    return found


async def _install(
    client: Client,
    chosen: set[str] | None,
    guide: bool,
    output: Format,
    dry_run: bool,
    force: bool,
    timeout_seconds: int | None,
) -> list[tuple[str, InstallResult]]:
    from koord.kube import crds as cluster

    # Where it is already somebody has asked for it, and it is kept up to date.
    if chosen is None:
        documents = crds(guide=guide or await cluster.is_defined(client, GUIDE_CRD))
    else:
        documents = [each for each in crds() if each["metadata"]["name"] in chosen]
    done: list[tuple[str, InstallResult]] = []
    with progress("definitions", 2 * len(documents)) as advance:
        async for name, outcome in cluster.install(client, documents, dry_run=dry_run, force=force):
            done.append((name, outcome))
            advance(1)
        if not dry_run:
            for name, _ in done:
                await cluster.wait_established(client, [name], timeout_seconds or _SERVED_SECONDS)
                advance(1)
    if output is Format.TEXT:
        suffix = " (server dry run)" if dry_run else ""
        for name, outcome in done:
            print(f"customresourcedefinition/{name} {outcome}{suffix}")
    return done


def with_client(
    kubeconfig: Path | None, context: str | None, work: Callable[[Client], Awaitable[T]]
) -> T:
    """Runs something with a client of the named cluster."""

    async def run() -> T:
        from koord.kube.client import Client
        from koord.kube.requests.retry import RetryPolicy
        from koord.kube.transport.credentials import load_cluster_config
        from koord.kube.transport.http import HttpTransport

        transport = HttpTransport(load_cluster_config(kubeconfig, context))
        try:
            # Somebody waits: a cluster that is not there is told of soon.
            policy = RetryPolicy(attempts=3)
            return await work(Client(transport, field_manager="koord", policy=policy))
        finally:
            await transport.close()

    return asyncio.run(run())


def _json(checked: DefinitionComparison) -> dict[str, Any]:
    return {
        "name": checked.name,
        "state": checked.state,
        "differences": [
            {"path": each.path, "side": each.side, "ours": each.ours, "theirs": each.theirs}
            for each in checked.differences
        ],
    }
