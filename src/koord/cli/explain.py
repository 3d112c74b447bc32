# SPDX-License-Identifier: Apache-2.0
"""``koord explain``: asks the component that decided."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from koord.base.errors import Code, KoordError, MissingExtraError
from koord.cli import explain_text
from koord.cli.output import Format, OutputOption, print_json
from koord.cli.scheduler import ENDPOINT

app = typer.Typer()
# Where leaders of schedulers are found: koord's own Lease, and kube-scheduler's.
_LEASES = (("koordinator-system", "koord-scheduler"), ("kube-system", "kube-scheduler"))
_SECONDS = 30.0

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
    answer = _ask(server, kubeconfig, f"/apis/v1/explain/pods/{_part(namespace)}/{_part(name)}")
    if output is Format.JSON:
        print_json(answer)
    else:
        explain_text.pod(answer)


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
    answer = _ask(server, kubeconfig, f"/apis/v1/nodes/{_part(name)}")
    if output is Format.JSON:
        print_json(answer)
    else:
        explain_text.node(answer)


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
    answer = _ask(server, kubeconfig, f"/apis/v1/plugins/ElasticQuota/quotas/{_part(name)}")
    if output is Format.JSON:
        print_json(answer)
    else:
        explain_text.quota(answer)


class AnswerError(KoordError):
    """The scheduler's own words why it does not answer.

    Args:
        message: what it said.
        status: of HTTP; from 500 on it is not the question's fault.
    """

    def __init__(self, message: str, status: int) -> None:
        self._message = message
        super().__init__("koord-scheduler", "", message, "an answer", Code.NOT_FOUND)
        self.exit_status = 2 if status < 500 else 1

    def _line(self) -> str:
        return self._message


def _part(name: str) -> str:
    """A name as one part of a path, whatever is in it."""
    if not name.strip("."):
        raise KoordError("NAME", "", name, "the name of an object")
    return quote(name, safe="")


def _ask(server: str, kubeconfig: Path | None, path: str) -> Any:
    if server and not server.startswith(("http://", "https://")):
        raise KoordError("--server", "", server, "a URL such as http://127.0.0.1:10251")
    try:
        return asyncio.run(_answer(server, kubeconfig, path))
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("koord"):
            raise
        raise MissingExtraError(error.name, "kube") from None


async def _answer(server: str, kubeconfig: Path | None, path: str) -> Any:
    import aiohttp
    from yarl import URL

    url = server.rstrip("/") or await _leader(kubeconfig)
    limit = aiohttp.ClientTimeout(total=_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=limit) as session,
            session.get(URL(url + path, encoded=True)) as response,
        ):
            status, body = response.status, await response.json(content_type=None)
    except TimeoutError:
        raise ConnectionError(f"{url}: no answer within {_SECONDS:.0f} s") from None
    except aiohttp.ClientError as error:
        raise ConnectionError(f"{url}: {error}") from None
    except ValueError:
        raise ConnectionError(f"{url}: this is not koord-scheduler that answers") from None
    if status != 200:
        message = body.get("message", "") if isinstance(body, dict) else ""
        raise AnswerError(str(message) or f"{url}: HTTP status {status}", status)
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
    raise AnswerError(
        f"no koord-scheduler leads here: no Lease has an annotation {ENDPOINT}; "
        "--server URL asks a scheduler directly",
        503,
    )
