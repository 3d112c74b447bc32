# SPDX-License-Identifier: Apache-2.0
"""``koord up``: a cluster in this process, with simulated machines."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import typer
from rich.console import Console

from koord.base import log
from koord.base.distributions import koord_version
from koord.base.documents import read_text
from koord.base.errors import KoordError, MissingExtraError
from koord.cli.commands.up import background, leases, node_pools, process_record
from koord.cli.commands.up import options as options
from koord.cli.commands.up.cluster import UpCluster
from koord.cli.commands.up.components import (
    COMPONENTS,
    GateTexts,
    chosen,
    gate_texts,
    has_webhooks,
)
from koord.cli.commands.up.installation import install
from koord.cli.commands.up.stored_only_kinds import notices
from koord.cli.terminal.output import Format, OutputOption, refuse_beside, refuse_without

if TYPE_CHECKING:
    from koord.cli.commands.up.colocation import ColocationRun
    from koord.controlplane.embedded import EmbeddedControlPlane
    from koord.kube.daemon.lifecycle import Component
    from koord.simulator.nodes.pools import NodePools

_INTERRUPTED = 130
_ENTRIES = ("clusters", "users", "contexts")


@dataclass(frozen=True)
class _UpOptions:
    """What was asked for."""

    pools: NodePools
    data: Path | None
    kubeconfig: Path | None
    merge: bool
    port: int
    insecure: bool
    no_rbac: bool
    names: list[str]
    seed: int
    output: Format
    colocation: ColocationRun | None
    gates: GateTexts


def up(
    nodes: options.NodesOption = None,
    pools: options.PoolsOption = None,
    data: options.DataOption = None,
    kubeconfig: options.KubeconfigOption = None,
    merge: options.MergeOption = False,
    detach: options.DetachOption = False,
    port: options.PortOption = 0,
    insecure: options.InsecureOption = False,
    no_rbac: options.NoRbacOption = False,
    without: options.WithoutOption = None,
    webhooks: options.WebhooksOption = options.Switch.ON,
    descheduler: options.DeschedulerOption = False,
    gates: options.GatesOption = "",
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

    koord's definitions and priority classes are installed. How clients reach it is printed
    when it is ready. Ctrl-C ends everything. Without --data nothing is kept.

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
        without = _left_out(without, webhooks, gate_texts(gates))
        if colocation:
            _refuse_beside_colocation(data, without, detach)
            day = _day(speed, hours, report, picture, seed, output)
        else:
            day, given = None, {"--speed": speed, "--hours": hours, "--report": report}
            refuse_without("--colocation", {**given, "--picture": picture})
        names = chosen(without or [], descheduler)
        if "nodes" not in names:
            refuse_beside("--without nodes", {"--nodes": nodes, "--pools": pools, "--seed": seed})
        data, seed = background.folder_of(data) if detach else data, seed or 0
        up_options = _UpOptions(
            node_pools.resolve_pools(nodes, pools, colocation, data), data, kubeconfig, merge, port,
            insecure, no_rbac, names, seed, output, day, gate_texts(gates),
        )  # fmt: skip
        if detach and data is not None:
            _check(up_options)
            words = _words(up_options, nodes, pools, without, gates, verbosity)
            _print_access(up_options, background.start(words, data), detached=True)
            return
        status = _run(up_options)
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("koord"):
            raise
        raise MissingExtraError(error.name, "sim") from None
    raise typer.Exit(status)


def _left_out(
    without: list[str] | None, webhooks: options.Switch, gates: GateTexts
) -> list[str] | None:
    """What does not run; the webhooks go by their gate, as koord-manager's do."""
    if webhooks is options.Switch.ON and has_webhooks(gates):
        return without
    return [*(without or []), "webhooks"]


def _run(up_options: _UpOptions) -> int:
    """Stays until the cluster ends; gives the exit status."""
    day = up_options.colocation
    with asyncio.Runner(loop_factory=day.loop if day is not None else None) as runner:
        status = runner.run(_Session(up_options).run())
    if day is not None:
        day.finish()
    return status


def _day(
    speed: int | None,
    hours: int | None,
    report: Path | None,
    picture: Path | None,
    seed: int | None,
    output: Format,
) -> ColocationRun:
    from koord.cli.commands.up.colocation import ColocationOptions, ColocationRun

    speed = options.DEFAULT_SPEED if speed is None else speed
    folder = report or options.DEFAULT_REPORT
    return ColocationRun(ColocationOptions(speed, hours, folder, picture, seed or 0, output))


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
    if without and without != ["webhooks"]:
        raise KoordError("--without", "", ",".join(without), "nothing beside --colocation")


class _Session:
    """One run of the command."""

    def __init__(self, up_options: _UpOptions) -> None:
        self._options = up_options
        self._failure: Exception | None = None
        self._own_folder: Path | None = None
        self._is_up = False
        self._done = asyncio.Event()

    async def run(self) -> int:
        """Runs until a signal or a failure ends it; gives the exit status."""
        from koord.controlplane.embedded import EmbeddedControlPlane, Options
        from koord.kube.daemon.lifecycle import Component, run_until_stopped

        up_options = self._options
        _check(up_options)
        port = up_options.port or self._former_port()
        serving = Options(
            data=up_options.data,
            port=port,
            insecure=up_options.insecure,
            rbac=not up_options.no_rbac,
            notices=notices(up_options.names),
        )
        if up_options.colocation is not None:
            serving = replace(serving, clock=up_options.colocation.clock, seed=up_options.seed)
        plane = EmbeddedControlPlane(serving)
        started = asyncio.Event()

        async def serve() -> None:
            async with plane:
                with (
                    nullcontext()
                    if up_options.data is None
                    else process_record.held(up_options.data)
                ):
                    started.set()
                    await asyncio.Event().wait()

        try:
            with _startup_steps() as step:
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
        from koord.base.clock import SystemClock
        from koord.base.memory import garbage_collection
        from koord.base.supervision import Supervisor
        from koord.controlplane.credentials import kubeconfig

        up_options = self._options
        day = up_options.colocation
        clock = SystemClock() if day is None else day.clock
        cluster = UpCluster(
            plane, up_options.pools, clock, up_options.seed,
            scheduler_gates=up_options.gates.scheduler, manager_gates=up_options.gates.manager,
        )  # fmt: skip
        if up_options.data is not None and "nodes" in up_options.names:
            node_pools.keep(up_options.pools, up_options.data)
        step("definitions and priority classes")
        await install(cluster, up_options.names)
        # The folder is this process's: nobody who ran on it before is there any more.
        await leases.release(cluster.client("koord-up"), clock)
        _serve_metrics(cluster)
        async with asyncio.TaskGroup() as tasks:
            for name in up_options.names:
                step(name)
                component = COMPONENTS[name].make(cluster)
                tasks.create_task(_run_component(component), name=name)
                if component.ready is not None:
                    await component.ready()
            supervisor = Supervisor("up", clock=clock)
            for recorder in cluster.recorders:
                tasks.create_task(supervisor.keep("events", recorder.run), name="events")
            path = self._kubeconfig_path()
            kubeconfig.write(path, plane.kubeconfig)
            with _merged(plane.kubeconfig) if up_options.merge else nullcontext("") as context:
                step("")
                self._is_up = True
                if day is None:
                    upkeep = supervisor.keep("memory", garbage_collection.keep_memory_low)
                    tasks.create_task(upkeep, name="memory")
                else:
                    garbage_collection.collect_rarely()
                    await day.run(cluster, f"export KUBECONFIG={path}")
                    self._done.set()
                    return
                line = _line(up_options, plane.url, path, context)
                if up_options.data is not None:
                    process_record.write(up_options.data, line)
                _print_access(up_options, line)
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
        if self._options.kubeconfig is not None:
            return self._options.kubeconfig
        if self._options.data is not None:
            return self._options.data / "kubeconfig"
        self._own_folder = Path(tempfile.mkdtemp(prefix="koord-up-"))
        return self._own_folder / "kubeconfig"

    def _former_port(self) -> int:
        """The port of the run before on the same data, so that its clients find this one; or 0."""
        if self._options.data is None:
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


def _line(up_options: _UpOptions, url: str, path: Path, context: str) -> dict[str, Any]:
    """What scripts are told."""
    nodes = sum(pool.count for pool in up_options.pools.pools) if "nodes" in up_options.names else 0
    return {"url": url, "kubeconfig": str(path), "pid": os.getpid(), "version": koord_version(),
            "nodes": nodes, "components": up_options.names,
            **({"context": context} if context else {})}  # fmt: skip


def _print_access(up_options: _UpOptions, line: dict[str, Any], detached: bool = False) -> None:
    """Says that the cluster is up, and how to reach it."""
    if up_options.output is Format.JSON:
        print(json.dumps(line), flush=True)
        return
    counts = {
        pool.name: pool.count for pool in up_options.pools.pools if "nodes" in up_options.names
    }
    kinds = ", ".join(f"{count} {name}" for name, count in counts.items())
    kept = str(up_options.data) if up_options.data else "in memory"
    end = "Ctrl-C"
    if detached:
        end = (
            "koord down"
            if up_options.data == background.folder_of(None)
            else f"koord down --data {kept}"
        )
    print(f"koord {line['version']} is up; {end} ends it.\n")
    print(f"  API server  {line['url']}")
    print(f"  machines    {f'{sum(counts.values())} simulated ({kinds})' if kinds else 'none'}")
    print(f"  runs        {', '.join(up_options.names) or 'nothing else'}")
    print(f"  state       {kept}\n")
    if context := line.get("context"):
        from koord.controlplane.credentials import user_kubeconfig

        print(f"  context     {context}, now the current one of {user_kubeconfig.default_path()}")
    else:
        print(f"  export KUBECONFIG={line['kubeconfig']}")
    print("  kubectl get nodes", flush=True)


def _words(
    up_options: _UpOptions,
    nodes: int | None,
    pools: Path | None,
    without: list[str] | None,
    gates: str,
    verbosity: int,
) -> list[str]:
    """The command line of the process that stays."""
    given = {
        "--nodes": nodes, "--pools": pools, "--kubeconfig": up_options.kubeconfig,
        "--seed": up_options.seed or None, "--feature-gates": gates or None,
    }  # fmt: skip
    words = [text for flag, value in given.items() if value is not None
             for text in (flag, str(value))]  # fmt: skip
    words += [f"--without={each}" for each in without or []]
    words += ["--port", str(up_options.port), "-v", str(verbosity)]
    flags = {
        "--insecure": up_options.insecure, "--no-rbac": up_options.no_rbac,
        "--kubeconfig-merge": up_options.merge, "--descheduler": "descheduler" in up_options.names,
    }  # fmt: skip
    return words + [flag for flag, on in flags.items() if on]


@contextmanager
def _merged(content: str) -> Iterator[str]:
    """The cluster is in the user's own kubeconfig for as long as it runs; gives its context."""
    from koord.controlplane.credentials import user_kubeconfig

    path = user_kubeconfig.default_path()
    name = user_kubeconfig.merge(path, content)
    try:
        yield name
    finally:
        user_kubeconfig.remove(path, name, content)


def _check(up_options: _UpOptions) -> None:
    """Refuses at once what would be found out when everything runs."""
    if up_options.kubeconfig is not None:
        _check_kubeconfig(up_options.kubeconfig)
    if up_options.merge:
        from koord.controlplane.credentials import user_kubeconfig

        user_kubeconfig.check(user_kubeconfig.default_path())


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


def _serve_metrics(cluster: UpCluster) -> None:
    from koord.controlplane.virtual import metrics_api

    api = metrics_api.MetricsApi(cluster.client("metrics"), cluster.clock)
    cluster.plane.server.virtual_apis[metrics_api.PREFIX] = api


async def _run_component(component: Component) -> None:
    await component.run()


def _first(error: BaseException) -> Exception:
    """The first single error of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error if isinstance(error, Exception) else RuntimeError(str(error))


@contextmanager
def _startup_steps() -> Iterator[Callable[[str], None]]:
    """Tells on standard error what is being started: a spinner, or plain lines when piped.

    Yields:
        A function that names the next step; empty for none any more.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda text: print(f"starting: {text}", file=sys.stderr) if text else None
        return
    status: Any = console.status("")
    status.start()

    def step(text: str) -> None:
        if text:
            status.update(f"starting {text}")
        else:
            status.stop()

    try:
        yield step
    finally:
        status.stop()
