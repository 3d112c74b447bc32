# SPDX-License-Identifier: Apache-2.0
"""``koord up``: a cluster in this process, with simulated machines."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import socket
import tempfile
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import typer

from koord.base import log
from koord.base.documents import read_text
from koord.base.errors import KoordError, MissingExtraError
from koord.cli import former, up_detached, up_machines, up_record
from koord.cli import up_options as options
from koord.cli.components import COMPONENTS, Cluster, chosen
from koord.cli.output import Format, OutputOption, refuse_beside, refuse_without
from koord.cli.up_steps import steps
from koord.cli.up_warnings import notices

if TYPE_CHECKING:
    from koord.cli.up_colocation import Colocation
    from koord.controlplane.embedded import EmbeddedControlPlane
    from koord.kube.client import Client
    from koord.kube.lifecycle import Component
    from koord.simulator.nodes.pools import NodePools

# Where koord's own configuration is looked for.
_NAMESPACE = "koordinator-system"
_ESTABLISHED_SECONDS = 30.0
_INTERRUPTED = 130
_ENTRIES = ("clusters", "users", "contexts")


@dataclass(frozen=True)
class _Wish:
    """What was asked for."""

    pools: NodePools
    data: Path | None
    kubeconfig: Path | None
    merge: bool
    port: int
    insecure: bool
    names: list[str]
    seed: int
    output: Format
    colocation: Colocation | None


def up(
    nodes: options.NodesOption = None,
    pools: options.PoolsOption = None,
    data: options.DataOption = None,
    kubeconfig: options.KubeconfigOption = None,
    merge: options.MergeOption = False,
    detach: options.DetachOption = False,
    port: options.PortOption = 0,
    insecure: options.InsecureOption = False,
    without: options.WithoutOption = None,
    seed: options.SeedOption = None,
    colocation: options.ColocationOption = False,
    speed: options.SpeedOption = None,
    hours: options.HoursOption = None,
    report: options.ReportOption = None,
    picture: options.PictureOption = None,
    verbosity: options.VerbosityOption = 0,
    output: OutputOption = Format.TEXT,
) -> None:
    """Start a cluster in this process: API server, controllers, simulated machines.

    koord's definitions and priority classes are installed. How clients reach
    it is printed when it is ready. Ctrl-C ends everything. Without --data
    nothing is kept.

    Exit status:
      0  ended in order, by Ctrl-C or SIGTERM too; with --detach: is up
      1  failed
      2  wrong usage or input
      130  interrupted before it was up

    Example: koord up --nodes 100

    Example: koord up --pools pools.yaml --data ~/.koord --port 6443

    Example: koord up -d --kubeconfig-merge && kubectl get nodes && koord down

    Example: koord up --colocation
    """
    _log(verbosity)
    try:
        day = None
        if colocation:
            from koord.cli.up_colocation import Colocation, Wish

            _refuse_beside_colocation(data, without, detach)
            speed = options.DEFAULT_SPEED if speed is None else speed
            folder = report or options.DEFAULT_REPORT
            day = Colocation(Wish(speed, hours, folder, picture, seed or 0, output))
        else:
            given = {"--speed": speed, "--hours": hours, "--report": report, "--picture": picture}
            refuse_without("--colocation", given)
        names = chosen(without or [])
        if "nodes" not in names:
            given = {"--nodes": nodes, "--pools": pools, "--seed": seed}
            refuse_beside("--without nodes", given)
        data, seed = up_detached.folder_of(data) if detach else data, seed or 0
        machines = up_machines.asked_for(nodes, pools, colocation, data)
        wish = _Wish(machines, data, kubeconfig, merge, port, insecure, names, seed, output, day)
        if detach and data is not None:
            _check(wish)
            words = _words(wish, nodes, pools, without, verbosity)
            _tell(wish, up_detached.start(words, data), detached=True)
            return
        with asyncio.Runner(loop_factory=day.loop if day is not None else None) as runner:
            status = runner.run(_Session(wish).run())
        if day is not None:
            day.finish()
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("koord"):
            raise
        raise MissingExtraError(error.name, "sim") from None
    raise typer.Exit(status)


def _log(verbosity: int) -> None:
    log.setup(verbosity)
    if not verbosity:
        # What failed is said once, as the command's last line.
        log.get("lifecycle").setLevel(logging.CRITICAL)


def _refuse_beside_colocation(data: Path | None, without: list[str] | None, detach: bool) -> None:
    """A day begins on an empty cluster, every component has its part in it, and it is looked at."""
    if detach:
        raise KoordError("--detach", "", "beside --colocation", "one of the two")
    if data is not None:
        raise KoordError("--data", "", str(data), "no folder beside --colocation")
    if without:
        raise KoordError("--without", "", ",".join(without), "nothing beside --colocation")


class _Session:
    """One run of the command."""

    def __init__(self, wish: _Wish) -> None:
        self._wish = wish
        self._failure: Exception | None = None
        self._own_folder: Path | None = None
        self._is_up = False
        self._done = asyncio.Event()

    async def run(self) -> int:
        """Runs until a signal or a failure ends it; gives the exit status."""
        from koord.controlplane.embedded import EmbeddedControlPlane, Options
        from koord.kube.lifecycle import Component, run_until_stopped

        wish = self._wish
        _check(wish)
        port = wish.port or self._former_port()
        serving = Options(
            data=wish.data, port=port, insecure=wish.insecure, notices=notices(wish.names)
        )
        if wish.colocation is not None:
            serving = replace(serving, clock=wish.colocation.clock, seed=wish.seed)
        plane = EmbeddedControlPlane(serving)
        started = asyncio.Event()

        async def serve() -> None:
            async with plane:
                with nullcontext() if wish.data is None else up_record.held(wish.data):
                    started.set()
                    await asyncio.Event().wait()

        try:
            with steps() as step:
                step("API server")
                parts = [
                    Component("API server", self._kept(serve), started.wait),
                    Component("cluster", self._kept(lambda: self._cluster(plane, step))),
                ]
                status = await run_until_stopped(parts, stop=self._done)
        finally:
            if self._own_folder is not None:
                shutil.rmtree(self._own_folder, ignore_errors=True)
        if self._failure is not None:
            raise self._failure
        # Neither failed nor ended in order: a second signal, or more than the time for an end.
        return 0 if self._is_up and not status else _INTERRUPTED

    async def _cluster(self, plane: EmbeddedControlPlane, step: Callable[[str], None]) -> None:
        """Fills the cluster, runs what belongs to it, says how to reach it, and stays."""
        from koord.base import collector
        from koord.base.clock import SystemClock
        from koord.base.supervision import Supervisor
        from koord.controlplane import kubeconfig

        wish = self._wish
        day = wish.colocation
        clock = SystemClock() if day is None else day.clock
        cluster = Cluster(plane, wish.pools, clock, wish.seed)
        if wish.data is not None and "nodes" in wish.names:
            up_machines.keep(wish.pools, wish.data)
        step("definitions and priority classes")
        await _install(cluster, wish.names)
        # The folder is this process's: nobody who ran on it before is there any more.
        await former.release(cluster.client("koord-up"), clock)
        _serve_metrics(cluster)
        async with asyncio.TaskGroup() as tasks:
            for name in wish.names:
                step(name)
                component = COMPONENTS[name].make(cluster)
                tasks.create_task(_run(component), name=name)
                if component.ready is not None:
                    await component.ready()
            supervisor = Supervisor("up", clock=clock)
            for recorder in cluster.recorders:
                tasks.create_task(supervisor.keep("events", recorder.run), name="events")
            path = self._kubeconfig_path()
            kubeconfig.write(path, plane.kubeconfig)
            with _merged(plane.kubeconfig) if wish.merge else nullcontext():
                step("")
                collector.look_seldom()
                self._is_up = True
                if day is not None:
                    await day.run(cluster, f"export KUBECONFIG={path}")
                    self._done.set()
                    return
                line = _line(wish, plane.url, path)
                if wish.data is not None:
                    up_record.write(wish.data, line)
                _tell(wish, line)
                await asyncio.Event().wait()

    def _kept(self, work: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """The same work, its first failure kept for the last line of the command."""

        async def run() -> None:
            try:
                await work()
            except Exception as error:
                self._failure = self._failure or _first(error)
                raise

        return run

    def _kubeconfig_path(self) -> Path:
        """Where the kubeconfig goes: where asked, beside the data, or into a folder of its own."""
        if self._wish.kubeconfig is not None:
            return self._wish.kubeconfig
        if self._wish.data is not None:
            return self._wish.data / "kubeconfig"
        self._own_folder = Path(tempfile.mkdtemp(prefix="koord-up-"))
        return self._own_folder / "kubeconfig"

    def _former_port(self) -> int:
        """The port of the run before on the same data, so that its clients find this one; or 0."""
        if self._wish.data is None:
            return 0
        try:
            config = json.loads(read_text(self._kubeconfig_path()))
            port = urlsplit(config["clusters"][0]["cluster"]["server"]).port or 0
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
        except (KoordError, OSError, ValueError, LookupError, TypeError):
            return 0
        return port


def _line(wish: _Wish, url: str, path: Path) -> dict[str, Any]:
    """What scripts are told."""
    nodes = sum(pool.count for pool in wish.pools.pools) if "nodes" in wish.names else 0
    return {"url": url, "kubeconfig": str(path), "pid": os.getpid(), "version": version("koord"),
            "nodes": nodes, "components": wish.names}  # fmt: skip


def _tell(wish: _Wish, line: dict[str, Any], detached: bool = False) -> None:
    """Says that the cluster is up, and how to reach it."""
    if wish.output is Format.JSON:
        print(json.dumps(line), flush=True)
        return
    counts = {pool.name: pool.count for pool in wish.pools.pools if "nodes" in wish.names}
    kinds = ", ".join(f"{count} {name}" for name, count in counts.items())
    kept = str(wish.data) if wish.data else "in memory"
    end = "Ctrl-C"
    if detached:
        end = (
            "koord down"
            if wish.data == up_detached.folder_of(None)
            else f"koord down --data {kept}"
        )
    print(f"koord {line['version']} is up; {end} ends it.\n")
    print(f"  API server  {line['url']}")
    print(f"  machines    {f'{sum(counts.values())} simulated ({kinds})' if kinds else 'none'}")
    print(f"  runs        {', '.join(wish.names) or 'nothing else'}")
    print(f"  state       {kept}\n")
    if wish.merge:
        from koord.controlplane import merging

        print(f"  context     koord, now the current one of {merging.default_path()}")
    else:
        print(f"  export KUBECONFIG={line['kubeconfig']}")
    print("  kubectl get nodes", flush=True)


def _words(
    wish: _Wish, nodes: int | None, pools: Path | None, without: list[str] | None, verbosity: int
) -> list[str]:
    """The command line of the process that stays."""
    given = {
        "--nodes": nodes, "--pools": pools, "--kubeconfig": wish.kubeconfig,
        "--seed": wish.seed or None,
    }  # fmt: skip
    words = [text for flag, value in given.items() if value is not None
             for text in (flag, str(value))]  # fmt: skip
    words += [f"--without={each}" for each in without or []]
    words += ["--port", str(wish.port), "-v", str(verbosity)]
    flags = {"--insecure": wish.insecure, "--kubeconfig-merge": wish.merge}
    return words + [flag for flag, on in flags.items() if on]


@contextmanager
def _merged(content: str) -> Iterator[None]:
    """The cluster is in the user's own kubeconfig for as long as it runs."""
    from koord.controlplane import merging

    path = merging.default_path()
    former = merging.merge(path, content)
    try:
        yield
    finally:
        merging.remove(path, content, former)


def _check(wish: _Wish) -> None:
    """Refuses at once what would be found out when everything runs."""
    if wish.kubeconfig is not None:
        _check_kubeconfig(wish.kubeconfig)
    if wish.merge:
        from koord.controlplane import merging

        merging.check(merging.default_path())


def _check_kubeconfig(path: Path) -> None:
    """Refuses a file that an earlier run did not write: it may be the way to another cluster."""
    if not path.exists():
        return
    try:
        config = json.loads(read_text(path))
        names = {each["name"] for kind in _ENTRIES for each in config[kind]}
    except (ValueError, LookupError, TypeError):
        names = set()
    if names != {"koord"}:
        raise KoordError(str(path), "", "a file", "a new one, or one that koord up wrote")


async def _install(cluster: Cluster, components: Collection[str]) -> None:
    from koord.api import crds, priority_classes
    from koord.api.kinds.cluster import PriorityClass
    from koord.api.kinds.registry import kind_of_type
    from koord.kube import crds as cluster_crds

    client = cluster.client(cluster_crds.FIELD_MANAGER)
    names = [name async for name, _ in cluster_crds.install(client, crds(), force=True)]
    kind = kind_of_type(PriorityClass)
    async for _ in cluster_crds.install(client, priority_classes(), kind, force=True):
        pass
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}}
    await client.apply(namespace, force=True)
    if "controllers" in components:
        await _add_storage_class(client)
    await cluster_crds.wait_established(client, names, _ESTABLISHED_SECONDS)


async def _add_storage_class(client: Client) -> None:
    """The class of claims that name none; one that is there already, or was changed, stays."""
    from koord.api.kinds.registry import kind_of_type
    from koord.api.kinds.storage import StorageClass
    from koord.kube.errors import ApiError

    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    document = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "standard", "annotations": annotations},
        "provisioner": "simulator.koord/volumes",
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    try:
        await client.create(document, kind=kind_of_type(StorageClass))
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise


def _serve_metrics(cluster: Cluster) -> None:
    from koord.controlplane import usage

    api = usage.MetricsApi(cluster.client("metrics"), cluster.clock)
    cluster.plane.server.further[usage.PREFIX] = api


async def _run(component: Component) -> None:
    await component.run()


def _first(error: BaseException) -> Exception:
    """The first single error of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error if isinstance(error, Exception) else RuntimeError(str(error))
