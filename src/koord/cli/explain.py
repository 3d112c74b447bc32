# SPDX-License-Identifier: Apache-2.0
"""``koord explain``: asks the component that decided."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from koord.base.errors import KoordError, MissingExtraError
from koord.cli import asking, explain_node_text, explain_text
from koord.cli.asking import part
from koord.cli.output import Format, OutputOption, print_json

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

app = typer.Typer()

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
    answer = _ask(server, kubeconfig, f"/apis/v1/explain/pods/{part(namespace)}/{part(name)}")
    if output is Format.JSON:
        print_json(answer)
    else:
        explain_text.pod(answer)


@app.command("node")
def node(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    server: _Server = "",
    manager: Annotated[
        str,
        typer.Option("--manager", metavar="URL", help="ask this koord-manager, not the leader"),
    ] = "",
    kubeconfig: _Kubeconfig = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Why a node offers what it offers to batch and mid pods, and what the scheduler counts there.

    Both parts say so where their component cannot be asked; neither has to be there.

    Example: koord explain node node-1
    """
    asking.check("--server", server)
    asking.check("--manager", manager)
    answer = _run(_node(part(name), manager, server, kubeconfig))
    if output is Format.JSON:
        print_json(answer)
    else:
        explain_node_text.node(name, answer)


@app.command("quota")
def quota(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    server: _Server = "",
    kubeconfig: _Kubeconfig = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """What the scheduler holds about a quota group: limits, use, the pods that count.

    Example: koord explain quota team-a
    """
    answer = _ask(server, kubeconfig, f"/apis/v1/plugins/ElasticQuota/quotas/{part(name)}")
    if output is Format.JSON:
        print_json(answer)
    else:
        explain_text.quota(answer)


def _ask(server: str, kubeconfig: Path | None, path: str) -> Any:
    asking.check("--server", server)
    return _run(asking.answer(asking.SCHEDULER, server, kubeconfig, path))


def _run(work: Coroutine[Any, Any, T]) -> T:
    try:
        return asyncio.run(work)
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("koord"):
            raise
        raise MissingExtraError(error.name, "kube") from None


async def _node(name: str, manager: str, server: str, kubeconfig: Path | None) -> dict[str, Any]:
    """What both components say; a failure only where neither does."""
    questions = {
        "manager": (asking.MANAGER, manager, kubeconfig, f"/apis/v1/explain/nodes/{name}"),
        "scheduler": (asking.SCHEDULER, server, kubeconfig, f"/apis/v1/nodes/{name}"),
    }
    found: dict[str, Any] = {}
    problems: dict[str, KoordError | ConnectionError] = {}
    for who, question in questions.items():
        try:
            found[who] = await asking.answer(*question)
        except (KoordError, ConnectionError) as error:
            found[who], problems[who] = None, error
    if len(problems) == len(questions):
        # Who was asked by name is answered for.
        raise problems["scheduler" if server and not manager else "manager"]
    return {**found, "problems": {who: str(error) for who, error in problems.items()}}
