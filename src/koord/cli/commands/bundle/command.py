# SPDX-License-Identifier: Apache-2.0
"""``koord support-bundle``: what somebody needs who helps, in one archive without secrets."""

from __future__ import annotations

import asyncio
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from koord.base.errors import Code, KoordError, MissingExtraError
from koord.cli.commands.crds import ContextOption, KubeconfigOption
from koord.cli.options.values import whole_number
from koord.cli.terminal.output import Format, OutputOption, print_json, progress, say

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from koord.cli.commands.bundle.archive import Bundle
    from koord.kube.transport.config import ClusterConfig
    from koord.kube.transport.messages import Transport

_NAMESPACE: Final = "koordinator-system"
_FOLDER: Final = "koord-support"
_MOST_MIB, _MOST_LINES = 64, 20
_PACKAGES: Final = ("aiohttp", "kubernetes", "msgspec", "numpy", "prometheus-client", "typer")

_File = Annotated[
    Path, typer.Option("--file", metavar="FILE", help="the archive; one that is there is replaced")
]
_Namespace = Annotated[
    str, typer.Option("--namespace", "-n", metavar="NAMESPACE", help="where koord runs")
]
_Most = Annotated[
    int,
    typer.Option(
        "--max-size",
        metavar="MIB",
        parser=whole_number("--max-size", 2, 1024),
        help="of all files together, before they are packed",
    ),
]
_Logs = Annotated[
    list[Path] | None,
    typer.Option("--log", metavar="FILE", help="add the end of a file, as ~/.koord/up.log"),
]


def support_bundle(
    file: _File = Path(f"{_FOLDER}.tar.gz"),
    namespace: _Namespace = _NAMESPACE,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    logs: _Logs = None,
    max_size: _Most = _MOST_MIB,
    output: OutputOption = Format.TEXT,
) -> None:
    """Collect what somebody needs who helps, in one archive without secrets.

    Versions, configuration, conditions, events, debug states, metrics and logs
    of koord's components. Secrets, environments and kubeconfigs are not read;
    of objects only named fields are kept. What could not be had is said, and
    is no failure. Look at it before you hand it on.

    Exit status:
      0  written
      1  the cluster does not answer
      2  wrong usage or input, or the file cannot be written

    Example: koord support-bundle --file bundle.tar.gz
    """
    try:
        from koord.cli.commands.bundle.archive import Bundle
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("koord"):
            raise
        raise MissingExtraError(error.name, "kube") from None
    # What keeps the archive from being written is said before the work.
    if not file.parent.is_dir():
        raise KoordError("--file", "", file, "a file in a folder that exists", Code.UNREADABLE)
    bundle = Bundle(max_size << 20)
    asyncio.run(_collect(bundle, namespace, kubeconfig, context))
    for log in logs or []:
        _add_log(bundle, log)
    size = bundle.write(file, _FOLDER)
    _print_result(bundle, file, size, output)


async def _collect(
    bundle: Bundle, namespace: str, kubeconfig: Path | None, context: str | None
) -> None:
    from koord.kube.transport.credentials import load_cluster_config
    from koord.kube.transport.http import HttpTransport

    config = load_cluster_config(kubeconfig, context)
    transport = HttpTransport(config)
    try:
        await _require_answer(transport, config)
        bundle.document("versions/koord.json", _versions())
        await collect(bundle, transport, config, namespace)
    finally:
        await transport.close()


async def _require_answer(transport: Transport, config: ClusterConfig) -> None:
    """A cluster that does not answer at all is told of at once, and there is no archive.

    Raises:
        ConnectionError: which one, and why.
    """
    from koord.kube.errors import TransportError
    from koord.kube.transport.messages import Request

    try:
        await transport.send(Request("GET", "/version", timeout_seconds=10.0))
    except (TransportError, TimeoutError) as error:
        raise ConnectionError(f"{config.server}: {str(error) or 'no answer within 10 s'}") from None


async def collect(
    bundle: Bundle, transport: Transport, config: ClusterConfig, namespace: str
) -> None:
    """Fills a bundle: what is small and says most comes first.

    Args:
        bundle: gets the files.
        transport: the way to the API server.
        config: how that is reached, for the components' own ports.
        namespace: koord's own.
    """
    from functools import partial

    from koord.cli.commands.bundle.agent_files import agent_files
    from koord.cli.commands.bundle.allow_list import CLUSTER_KINDS
    from koord.cli.commands.bundle.cluster_files import ClusterFiles
    from koord.cli.commands.bundle.component_files import COMPONENTS, component_files

    cluster = ClusterFiles(transport, bundle, namespace)
    steps: list[Callable[[], Awaitable[None]]] = [
        cluster.version,
        cluster.configurations,
        *(partial(cluster.kind, kind) for kind in CLUSTER_KINDS),
        cluster.pending,
        cluster.events,
        # Leases are known by then.
        *(partial(component_files, bundle, each, cluster, config) for each in COMPONENTS),
        lambda: agent_files(bundle, cluster.own_pods, config),
        cluster.logs,
    ]
    with progress("support bundle", len(steps)) as advance:
        for step in steps:
            await step()
            advance(1)


def _versions() -> dict[str, object]:
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in ("koord", *_PACKAGES):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return {"packages": found, "python": platform.python_version(), "machine": platform.machine()}


def _add_log(bundle: Bundle, path: Path) -> None:
    from koord.cli.commands.bundle.archive import FILE_BYTES

    name = f"logs/{path.name}"
    if name in bundle.names:
        raise KoordError("--log", "", path, "files of different names")
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - FILE_BYTES, 0))
            data = file.read(FILE_BYTES)
    except OSError as error:
        expected = f"a file that can be read ({error.strerror or error})"
        raise KoordError("--log", "", path, expected, Code.UNREADABLE) from None
    bundle.text(name, data.decode(errors="replace"))


def _print_result(bundle: Bundle, file: Path, size: int, output: Format) -> None:
    if output is Format.JSON:
        print_json(
            {"file": str(file), "bytes": size, "files": bundle.names, "lacks": bundle.problems}
        )
        return
    for line in bundle.problems[:_MOST_LINES]:
        print(f"not had: {line}", file=sys.stderr)
    if len(bundle.problems) > _MOST_LINES:
        rest = len(bundle.problems) - _MOST_LINES
        print(f"not had: {rest} more, see contents.txt", file=sys.stderr)
    say(f"{file}: {len(bundle.names)} files, {max(size // 1024, 1)} KiB")
    say("Secrets and environments are left out; look at it before you hand it on.")
