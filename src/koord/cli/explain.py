# SPDX-License-Identifier: Apache-2.0
"""``koord explain``: asks the component that decided."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from koord.base.errors import KoordError, MissingExtraError
from koord.cli import asking, explain_node_text, explain_objects_text, explain_text
from koord.cli.asking import part
from koord.cli.output import Format, OutputOption, print_json

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")

app = typer.Typer()

_Server = Annotated[
    str, typer.Option("--server", metavar="URL", help="ask there instead of the leader")
]
_Kubeconfig = Annotated[
    Path | None, typer.Option("--kubeconfig", metavar="FILE", help="how to reach the cluster")
]
_Namespace = Annotated[
    str, typer.Option("--namespace", "-n", metavar="NAMESPACE", help="of the object")
]
_NoNamespace = Annotated[
    str, typer.Option("--namespace", "-n", metavar="NAMESPACE", help="not used: it has none")
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
    namespace: _NoNamespace = "",
    kubeconfig: _Kubeconfig = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Why a node offers what it offers to batch and mid pods, and what the scheduler counts there.

    Both parts say so where their component cannot be asked; neither has to be there.

    Example: koord explain node node-1
    """
    del namespace
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
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace", "-n", metavar="NAMESPACE", help="of a quota of quota.koordinator.sh"
        ),
    ] = "",
    server: _Server = "",
    kubeconfig: _Kubeconfig = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """What the scheduler holds about a quota group: limits, use, the pods that count.

    Of one that is not in force it says why not.

    Example: koord explain quota team-a
    """
    within = f"?namespace={part(namespace)}" if namespace else ""
    answer = _ask(server, kubeconfig, f"/apis/v1/explain/quotas/{part(name)}{within}")
    _show(answer, output, explain_objects_text.quota)


@app.command("gang")
def gang(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    namespace: _Namespace = "default",
    server: _Server = "",
    kubeconfig: _Kubeconfig = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """What a gang waits for, with its pods, their nodes and the quotas they use.

    Example: koord explain gang train -n team-a
    """
    path = f"/apis/v1/explain/gangs/{part(namespace)}/{part(name)}"
    _show(_ask(server, kubeconfig, path), output, explain_objects_text.gang)


@app.command("reservation")
def reservation(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    namespace: _NoNamespace = "",
    server: _Server = "",
    kubeconfig: _Kubeconfig = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """What a reservation holds and where, or why it holds nothing, with the pods in it.

    Example: koord explain reservation for-the-release
    """
    del namespace
    path = f"/apis/v1/explain/reservations/{part(name)}"
    _show(_ask(server, kubeconfig, path), output, explain_objects_text.reservation)


@app.command("device")
def device(
    name: Annotated[str, typer.Argument(metavar="NODE")],
    namespace: _NoNamespace = "",
    server: _Server = "",
    kubeconfig: _Kubeconfig = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """The cards of a node: what of each is free, which pods hold the rest, and their quotas.

    Example: koord explain device node-gpu-001
    """
    del namespace
    path = f"/apis/v1/explain/devices/{part(name)}"
    _show(_ask(server, kubeconfig, path), output, explain_objects_text.device)


def _show(answer: Any, output: Format, as_text: Callable[[Any], None]) -> None:
    if output is Format.JSON:
        print_json(answer)
    else:
        as_text(answer)


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
