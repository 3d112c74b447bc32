# SPDX-License-Identifier: Apache-2.0
"""``koord migrate``: moves one pod by a PodMigrationJob."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from koord.base.errors import KoordError, MissingExtraError
from koord.cli.commands.crds import ContextOption, KubeconfigOption, with_client
from koord.cli.help.typer_help import DURATION
from koord.cli.options.values import seconds
from koord.cli.terminal.output import Format, OutputOption, print_json, refuse_without, say

if TYPE_CHECKING:
    from koord.base.documents import Document
    from koord.cli.commands.migrate.migration_progress import MigrationStep
    from koord.cli.commands.migrate.migration_request import MigrationRequest
    from koord.kube.client import Client

RESERVATION_FIRST, EVICT_DIRECTLY = "ReservationFirst", "EvictDirectly"
_NAMESPACE, _LEASE = "koordinator-system", "koord-descheduler"
_NOT_FOUND = 404


def _read_mode(text: str) -> str:
    if text not in (RESERVATION_FIRST, EVICT_DIRECTLY):
        raise KoordError("--mode", "", text, f"{RESERVATION_FIRST} or {EVICT_DIRECTLY}")
    return text


_Namespace = Annotated[
    str, typer.Option("--namespace", "-n", metavar="NAMESPACE", help="of the pod")
]
_Target = Annotated[
    str, typer.Option("--to", metavar="NODE", help="go there; else where the scheduler says")
]
_Mode = Annotated[
    str,
    typer.Option(
        "--mode",
        metavar=f"{RESERVATION_FIRST}|{EVICT_DIRECTLY}",
        parser=_read_mode,
        help="reserve the new place first, or evict at once",
    ),
]
_TTL = Annotated[
    float,
    typer.Option(
        "--ttl",
        metavar=DURATION,
        parser=seconds("--ttl"),
        help="give up and undo after so long; 0 for never",
    ),
]
_Wait = Annotated[bool, typer.Option("--wait", help="follow the migration to its end")]
_Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar=DURATION,
        parser=seconds("--timeout"),
        help="of --wait: stop to follow after so long; by default never",
        show_default=False,
    ),
]
_DryRun = Annotated[
    bool, typer.Option("--dry-run", help="let the server check the job and store nothing")
]


def migrate(
    name: Annotated[str, typer.Argument(metavar="POD")],
    namespace: _Namespace = "default",
    node: _Target = "",
    mode: _Mode = RESERVATION_FIRST,
    ttl: _TTL = 300.0,
    wait: _Wait = False,
    timeout: _Timeout = None,
    dry_run: _DryRun = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Move a pod to another node: its place is reserved before it is evicted.

    Makes a PodMigrationJob, which koord-descheduler carries out: the scheduler
    reserves a place, the pod is evicted as its budgets allow, and the pod that
    comes in its stead takes that place.

    Exit status:
      0  the job is made; with --wait: the pod has moved
      1  it has failed, has not ended in time, or the cluster does not answer
      2  there is no such pod or node, or the pod cannot move

    Example: koord migrate web-0 -n shop --to node-3 --wait
    """
    if not wait or dry_run:
        refuse_without("--wait", {"--timeout": timeout})
    if node and mode != RESERVATION_FIRST:
        raise KoordError("--to", "", node, f"--mode {RESERVATION_FIRST}, which reserves the place")
    try:
        from koord.cli.commands.migrate.migration_request import MigrationRequest

        request = MigrationRequest(namespace, name, node, mode, ttl)
        job, ended = with_client(
            kubeconfig,
            context,
            lambda client: _carried_out(client, request, dry_run, wait, timeout),
        )
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("koord"):
            raise
        raise MissingExtraError(error.name, "kube") from None
    if output is Format.JSON:
        print_json(job)
    else:
        _show(job, dry_run, ended)
    if ended and job["status"]["phase"] != "Succeeded":
        raise typer.Exit(1)


async def _carried_out(
    client: Client, request: MigrationRequest, dry_run: bool, wait: bool, timeout: float | None
) -> tuple[Document, bool]:
    """The job, and whether it was followed to its end."""
    from koord.cli.commands.migrate.migration_progress import MigrationFollower
    from koord.cli.commands.migrate.migration_request import JOB, job_of

    made: Any = await client.create(await job_of(client, request), kind=JOB, dry_run=dry_run)
    if dry_run:
        return made, False
    if not await _is_led(client):
        _aside("no koord-descheduler leads here: nobody carries the job out yet")
    if not wait:
        return made, False
    _aside(f"{made['metadata']['name']}: made")
    follower = MigrationFollower(client, made["metadata"]["name"], _print_step)
    return await follower.until_ended(timeout or 0.0), True


async def _is_led(client: Client) -> bool:
    """Whether somebody holds the descheduler's Lease; who may not look believes it."""
    from koord.api.kinds.cluster import Lease
    from koord.kube.errors import ApiError

    try:
        lease = await client.get(Lease, _LEASE, _NAMESPACE)
    except ApiError as error:
        return error.http_status != _NOT_FOUND
    return bool(lease.spec.holder_identity)


def _print_step(step: MigrationStep) -> None:
    sign = "! " if step.kind == "Warning" else "  "
    _aside(f"{sign}{step.reason}{f': {step.message}' if step.message else ''}")


def _aside(text: str) -> None:
    """What goes on, beside the result."""
    print(text, file=sys.stderr, flush=True)


def _show(job: Document, dry_run: bool, ended: bool) -> None:
    name, pod = job["metadata"].get("name", ""), job["spec"]["podRef"]
    title, status = f"{pod['namespace']}/{pod['name']}", job.get("status", {})
    if dry_run:
        say(f"pod {title} would be migrated: the server takes the job (server dry run)")
    elif not ended:
        say(f"podmigrationjob/{name} made: pod {title} is to move")
        say(f"  kubectl get podmigrationjob {name} -w")
    elif status.get("phase") == "Succeeded":
        new = status.get("podRef", {}).get("name", "")
        where = f" to {status['nodeName']}" if status.get("nodeName") else ""
        say(f"pod {title} has moved{where}{f', as {new}' if new else ''}")
    else:
        why = status.get("message") or status.get("reason") or "no reason was given"
        say(f"pod {title} has not moved: {status.get('phase')}, {status.get('reason', '')}: {why}")
