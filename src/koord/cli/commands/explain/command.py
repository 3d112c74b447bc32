# SPDX-License-Identifier: Apache-2.0
"""``koord explain``: asks the component that decided."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from koord.base.errors import KoordError, MissingExtraError
from koord.cli.commands.explain import (
    component_query,
    moves_text,
    node_text,
    object_text,
    pod_text,
)
from koord.cli.commands.explain.component_query import path_segment
from koord.cli.help.typer_help import TyperApp
from koord.cli.terminal.output import Format, OutputOption, print_json, refuse_beside, say

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")

app = TyperApp()

_Server = Annotated[
    str, typer.Option("--server", metavar="URL", help="ask there instead of the leader")
]
_Kubeconfig = Annotated[
    Path | None, typer.Option("--kubeconfig", metavar="FILE", help="how to reach the cluster")
]
_Namespace = Annotated[
    str, typer.Option("--namespace", "-n", metavar="NAMESPACE", help="of the object")
]
_Descheduler = Annotated[
    str,
    typer.Option("--descheduler", metavar="URL", help="ask this koord-descheduler, not the leader"),
]
_Node = Annotated[str, typer.Argument(metavar="NODE")]
_NoNamespace = Annotated[
    str, typer.Option("--namespace", "-n", metavar="NAMESPACE", help="not used: it has none")
]


@app.command("pod")
def pod(
    name: Annotated[str, typer.Argument(metavar="POD")],
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAMESPACE", help="of the pod")
    ] = "default",
    server: _Server = "",
    descheduler: _Descheduler = "",
    kubeconfig: _Kubeconfig = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Say why a pod is on its node or on none, and what would become of it now.

    What-if answers are worked out by the scheduler's own functions; nothing changes. Where a
    koord-descheduler leads it says, too, what it did with the pod in its last rounds and which
    rule keeps it now.

    Exit status:
      0  told
      1  nobody who can tell answers
      2  there is no such object

    Example: koord explain pod web-0 -n shop
    """
    component_query.check("--server", server)
    component_query.check("--descheduler", descheduler)
    if server:
        refuse_beside("--server", {"--kubeconfig": kubeconfig})
    path = f"/apis/v1/explain/pods/{path_segment(namespace)}/{path_segment(name)}"
    answer = _run(_pod(path, server, descheduler, kubeconfig))
    if output is Format.JSON:
        print_json(answer)
        return
    if "problem" in answer:
        say(f"koord-scheduler: {answer['problem']}")
    else:
        pod_text.pod(answer)
    if "moves" in answer:
        say()
        moves_text.moves(answer["moves"])


@app.command("node")
def node(
    name: _Node,
    server: _Server = "",
    manager: Annotated[
        str,
        typer.Option("--manager", metavar="URL", help="ask this koord-manager, not the leader"),
    ] = "",
    descheduler: _Descheduler = "",
    namespace: _NoNamespace = "",
    kubeconfig: _Kubeconfig = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Say why a node offers what it offers, and what the scheduler counts there.

    The first part is koord-manager's, the second koord-scheduler's. Where one of them
    cannot be asked its part says so. Where a koord-descheduler leads a third part says which
    pods left the node in its last rounds.

    Exit status:
      0  told
      1  nobody who can tell answers
      2  there is no such object

    Example: koord explain node node-1
    """
    del namespace
    component_query.check("--server", server)
    component_query.check("--manager", manager)
    component_query.check("--descheduler", descheduler)
    if server and manager:
        refuse_beside("--server and --manager", {"--kubeconfig": kubeconfig})
    answer = _run(_node(path_segment(name), manager, server, descheduler, kubeconfig))
    if output is Format.JSON:
        print_json(answer)
    else:
        node_text.node(name, answer)
        if "moves" in answer:
            say()
            moves_text.moves(answer["moves"])


@app.command("quota")
def quota(
    name: Annotated[str, typer.Argument(metavar="QUOTA")],
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
    """Say what the scheduler holds about a quota: limits, use, pods that count.

    Of one that is not in force it says why not.

    Exit status:
      0  told
      1  nobody who can tell answers
      2  there is no such object

    Example: koord explain quota team-a
    """
    within = f"?namespace={path_segment(namespace)}" if namespace else ""
    answer = _ask(server, kubeconfig, f"/apis/v1/explain/quotas/{path_segment(name)}{within}")
    _show(answer, output, object_text.quota)


@app.command("gang")
def gang(
    name: Annotated[str, typer.Argument(metavar="GANG")],
    namespace: _Namespace = "default",
    server: _Server = "",
    kubeconfig: _Kubeconfig = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Say what a gang waits for, with its pods, their nodes and quotas.

    Exit status:
      0  told
      1  nobody who can tell answers
      2  there is no such object

    Example: koord explain gang train -n team-a
    """
    path = f"/apis/v1/explain/gangs/{path_segment(namespace)}/{path_segment(name)}"
    _show(_ask(server, kubeconfig, path), output, object_text.gang)


@app.command("reservation")
def reservation(
    name: Annotated[str, typer.Argument(metavar="RESERVATION")],
    namespace: _NoNamespace = "",
    server: _Server = "",
    kubeconfig: _Kubeconfig = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Say what a reservation holds and where, or why it holds nothing.

    Exit status:
      0  told
      1  nobody who can tell answers
      2  there is no such object

    Example: koord explain reservation for-the-release
    """
    del namespace
    path = f"/apis/v1/explain/reservations/{path_segment(name)}"
    _show(_ask(server, kubeconfig, path), output, object_text.reservation)


@app.command("device")
def device(
    name: _Node,
    namespace: _NoNamespace = "",
    server: _Server = "",
    kubeconfig: _Kubeconfig = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Say what of each card of a node is free, and which pods hold the rest.

    Exit status:
      0  told
      1  nobody who can tell answers
      2  there is no such object

    Example: koord explain device node-gpu-001
    """
    del namespace
    path = f"/apis/v1/explain/devices/{path_segment(name)}"
    _show(_ask(server, kubeconfig, path), output, object_text.device)


@app.command("profile")
def profile(
    name: Annotated[str, typer.Argument(metavar="PROFILE")],
    namespace: _NoNamespace = "",
    kubeconfig: _Kubeconfig = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Say which pods a colocation profile has, by namespace and owner.

    Caught are pods that are as it makes them; next time, those that it would change if they were
    made anew; refused, those that it cannot convert, with the reason.

    Exit status:
      0  told
      1  the cluster does not answer
      2  there is no such profile, or it cannot be evaluated

    Example: koord explain profile batch
    """
    del namespace
    _show(_run(_profile(name, kubeconfig)), output, _profile_text)


async def _profile(name: str, kubeconfig: Path | None) -> Any:
    from koord.cli.commands.explain import profile as of_profile

    return await of_profile.answer(name, kubeconfig)


def _profile_text(answer: Any) -> None:
    from koord.cli.commands.explain import profile as of_profile

    of_profile.show(answer)


def _show(answer: Any, output: Format, as_text: Callable[[Any], None]) -> None:
    if output is Format.JSON:
        print_json(answer)
    else:
        as_text(answer)


def _ask(server: str, kubeconfig: Path | None, path: str) -> Any:
    component_query.check("--server", server)
    if server:
        refuse_beside("--server", {"--kubeconfig": kubeconfig})
    return _run(component_query.answer(component_query.SCHEDULER, server, kubeconfig, path))


def _run(work: Coroutine[Any, Any, T]) -> T:
    try:
        return asyncio.run(work)
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("koord"):
            raise
        raise MissingExtraError(error.name, "kube") from None


async def _pod(path: str, server: str, descheduler: str, kubeconfig: Path | None) -> dict[str, Any]:
    """What the scheduler says, with what the descheduler did; a failure only where neither tells.

    A pod that was moved is not the scheduler's any more.
    """
    found: dict[str, Any] = {}
    problem: KoordError | ConnectionError | None = None
    try:
        found = await component_query.answer(component_query.SCHEDULER, server, kubeconfig, path)
    except (KoordError, ConnectionError) as error:
        problem = error
    moves = await _moves(path, server, descheduler, kubeconfig)
    if problem is not None:
        if moves is None or "problem" in moves:
            raise problem
        found = {"problem": str(problem)}
    return found if moves is None else {**found, "moves": moves}


async def _moves(
    path: str, server: str, descheduler: str, kubeconfig: Path | None
) -> dict[str, Any] | None:
    """What the descheduler says; None where none leads, or the cluster is not to be asked."""
    if server and not descheduler:
        return None
    try:
        asked = (component_query.DESCHEDULER, descheduler, kubeconfig, path)
        return dict(await component_query.answer(*asked))
    except component_query.NoLeaderError:
        return None
    except (KoordError, ConnectionError) as error:
        return {"problem": str(error)}


async def _node(
    name: str, manager: str, server: str, descheduler: str, kubeconfig: Path | None
) -> dict[str, Any]:
    """What the components say; a failure only where neither manager nor scheduler does."""
    questions = {
        "manager": (component_query.MANAGER, manager, kubeconfig, f"/apis/v1/explain/nodes/{name}"),
        "scheduler": (component_query.SCHEDULER, server, kubeconfig, f"/apis/v1/nodes/{name}"),
    }
    found: dict[str, Any] = {}
    problems: dict[str, KoordError | ConnectionError] = {}
    for who, question in questions.items():
        try:
            found[who] = await component_query.answer(*question)
        except (KoordError, ConnectionError) as error:
            found[who], problems[who] = None, error
    if len(problems) == len(questions):
        # Who was asked by name is answered for.
        raise problems["scheduler" if server and not manager else "manager"]
    told = {**found, "problems": {who: str(error) for who, error in problems.items()}}
    path = f"/apis/v1/explain/nodes/{name}"
    moves = await _moves(path, server or manager, descheduler, kubeconfig)
    return told if moves is None else {**told, "moves": moves}
