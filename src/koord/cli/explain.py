# SPDX-License-Identifier: Apache-2.0
"""``koord explain``: asks the component that decided."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from koord.base.errors import Code, KoordError, MissingExtraError
from koord.cli.output import Format, OutputOption
from koord.cli.scheduler import ENDPOINT

if TYPE_CHECKING:
    from collections.abc import Mapping

app = typer.Typer()
# Where leaders of schedulers are found: koord's own Lease, and kube-scheduler's.
_LEASES = (("koordinator-system", "koord-scheduler"), ("kube-system", "kube-scheduler"))

_Server = Annotated[
    str, typer.Option("--server", metavar="URL", help="ask there instead of the leader")
]
_Kubeconfig = Annotated[
    Path | None, typer.Option("--kubeconfig", metavar="FILE", help="how to reach the cluster")
]


@app.command("pod")
def pod(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAMESPACE", help="of the pod")
    ] = "default",
    server: _Server = "",
    kubeconfig: _Kubeconfig = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Why a pod is on its node or on none, and what would become of it now.

    What-if answers are worked out by the scheduler's own functions; nothing changes.

    Example: koord explain pod web-0 -n shop
    """
    answer = _ask(server, kubeconfig, f"/apis/v1/explain/pods/{namespace}/{name}")
    if output is Format.JSON:
        print(json.dumps(answer, indent=2))
    else:
        _show_pod(answer, Console())


@app.command("node")
def node(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    server: _Server = "",
    kubeconfig: _Kubeconfig = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """What the scheduler believes of a node: amounts, pods, ports.

    Example: koord explain node node-1 -o json
    """
    answer = _ask(server, kubeconfig, f"/apis/v1/nodes/{name}")
    if output is Format.JSON:
        print(json.dumps(answer, indent=2))
    else:
        _show_node(answer, Console())


@app.command("quota")
def quota(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    server: _Server = "",
    kubeconfig: _Kubeconfig = None,
) -> None:
    """What the scheduler holds about a quota group, as JSON.

    Example: koord explain quota team-a
    """
    answer = _ask(server, kubeconfig, f"/apis/v1/plugins/ElasticQuota/quotas/{name}")
    print(json.dumps(answer, indent=2))


def _ask(server: str, kubeconfig: Path | None, path: str) -> Any:
    try:
        return asyncio.run(_answer(server, kubeconfig, path))
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("koord"):
            raise
        raise MissingExtraError(error.name, "kube") from None


async def _answer(server: str, kubeconfig: Path | None, path: str) -> Any:
    import aiohttp

    url = server.rstrip("/") or await _leader(kubeconfig)
    try:
        async with aiohttp.ClientSession() as session, session.get(url + path) as response:
            body = await response.json(content_type=None)
    except (aiohttp.ClientError, ValueError) as error:
        raise ConnectionError(f"{url}: {error}") from None
    if response.status != 200:
        message = body.get("message", "") if isinstance(body, dict) else str(body)
        raise KoordError("koord-scheduler", "", message, "an answer", Code.INVALID)
    return body


async def _leader(kubeconfig: Path | None) -> str:
    """Where the leading scheduler answers, by the annotation of its Lease."""
    from koord.api.kinds.cluster import Lease
    from koord.kube.client import Client
    from koord.kube.config import ClusterConfig
    from koord.kube.errors import ApiError
    from koord.kube.http import HttpTransport

    transport = HttpTransport(ClusterConfig.load(kubeconfig))
    try:
        client = Client(transport)
        for namespace, name in _LEASES:
            try:
                lease = await client.get(Lease, name, namespace)
            except ApiError as error:
                if error.http_status != 404:
                    raise
                continue
            url = lease.metadata.annotations.get(ENDPOINT)
            if url:
                return url
    finally:
        await transport.close()
    expected = f"annotation {ENDPOINT} on a Lease, or --server URL"
    raise KoordError("koord-scheduler", "Lease", "none", expected, Code.NOT_FOUND)


def _show_pod(answer: Mapping[str, Any], console: Console) -> None:
    where = f" on {answer['node']}" if answer.get("node") else ""
    console.print(f"[bold]{answer['pod']}[/bold]: {answer['state']}{where}")
    last = answer.get("last")
    since = datetime.fromtimestamp(answer["since"]).strftime("%Y-%m-%d %H:%M:%S")
    if last is None:
        console.print(f"No attempt is remembered since {since}.")
    else:
        moment = datetime.fromtimestamp(last["at"]).strftime("%H:%M:%S")
        came = last.get("message") or f"went to {last.get('node', '')}"
        console.print(f"Last attempt at {moment}: {came}")
    fitting, nodes = answer.get("fitting", 0), answer.get("nodes", 0)
    if answer.get("refused"):
        console.print(f"Now: refused before any node is looked at: {answer['refused']}")
    else:
        console.print(f"Now: {fitting} of {nodes} nodes fit.")
    for draw in (_filters, _nearest, _best):
        table = draw(answer)
        if table is not None:
            console.print(table)
    if answer.get("chosen"):
        console.print(f"It would go to [bold]{answer['chosen']}[/bold].")
        for plugin, choice in answer.get("allocations", {}).items():
            console.print(f"  {plugin}: {json.dumps(choice)}")
    for change in answer.get("changes", []):
        console.print(f"It would fit on {change['nodes']} nodes: {change['text']}.")


def _filters(answer: Mapping[str, Any]) -> Table | None:
    if not answer.get("filters"):
        return None
    table = Table("FILTER", "REFUSES", "FIRST", "WHY", box=None, pad_edge=False)
    for line in answer["filters"]:
        why = ", ".join(f"{count} {reason}" for reason, count in line["reasons"].items())
        table.add_row(line["plugin"], str(line["nodes"]), str(line["first"]), why)
    return table


def _nearest(answer: Mapping[str, Any]) -> Table | None:
    if not answer.get("nearest"):
        return None
    table = Table("NEAREST NODE", "WHY NOT", "MISSING", box=None, pad_edge=False)
    for line in answer["nearest"]:
        missing = ", ".join(f"{name} {amount}" for name, amount in line.get("missing", {}).items())
        table.add_row(line["node"], ", ".join(line["reasons"]), missing)
    return table


def _best(answer: Mapping[str, Any]) -> Table | None:
    best = answer.get("best")
    if not best:
        return None
    plugins = list(best[0]["byPlugin"])
    table = Table("BEST NODE", "TOTAL", *plugins, box=None, pad_edge=False)
    for line in best:
        scores = [str(line["byPlugin"].get(plugin, 0)) for plugin in plugins]
        table.add_row(line["node"], str(line["total"]), *scores)
    return table


def _show_node(answer: Mapping[str, Any], console: Console) -> None:
    console.print(f"[bold]{answer['nodeName']}[/bold]: {len(answer['pods'])} pods")
    table = Table("RESOURCE", "ALLOCATABLE", "REQUESTED", "FREE", box=None, pad_edge=False)
    for name, allocatable in answer["allocatable"].items():
        requested, free = answer["requested"][name], answer["remaining"][name]
        if allocatable or requested:
            table.add_row(name, str(allocatable), str(requested), str(free))
    console.print(table)
    for key in answer["pods"]:
        console.print(f"  {key}")
    sys.stdout.flush()
