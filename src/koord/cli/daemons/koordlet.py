# SPDX-License-Identifier: Apache-2.0
"""``koordlet``: the node agent as a program of its own."""

from __future__ import annotations

import asyncio
import importlib
import mimetypes
import os
import sys
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from koord.agent.flag_pairs import PAIRS
from koord.agent.options import AgentOptions
from koord.agent.unused_flags import OWN, UNUSED
from koord.base import log
from koord.base.errors import KoordError, MissingExtraError
from koord.cli.options import go_flags
from koord.cli.process.program import begin_dry_run, run_program

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from koord.agent.app import Agent
    from koord.agent.host.machine import Machine
    from koord.agent.states.kubelet import Kubelet
    from koord.api.kinds.node import Node
    from koord.base.clock import Clock
    from koord.base.metrics import MetricRegistry
    from koord.base.supervision import Supervisor
    from koord.cli.help.page import HelpPage
    from koord.kube.client import Client
    from koord.kube.dry_run import DryRun
    from koord.kube.events import EventRecorder
    from koord.kube.transport.config import ClusterConfig
    from koord.kube.transport.messages import Transport

NAME = "koordlet"
_ANSWER_SECONDS = 5.0
_AUTHORITIES = "SSL_CERT_FILE"  # where OpenSSL looks for them
_TLS_READ_BYTES = 32 << 10  # two records; asyncio's own is a quarter of a megabyte


_TEXT = """\
Measure this node, protect its services, lend what is idle to batch.

Runs as root, on the host (agent_mode=hostMode) or in a container with the host's
directories mounted. Without --kubeconfig KUBECONFIG, the pod's service account and
~/.kube/config are tried. On SIGTERM every file gets back what it said before, unless
--restore-on-exit=false leaves them to the next koordlet: for upgrades.

Exit status:
  0  ended in order
  1  failed
  2  wrong usage or input

Example: agent_mode=hostMode koordlet --node-name "$(hostname)" --dry-run
"""


class AgentDependencies(NamedTuple):
    """What the program has before its node is known."""

    client: Client
    recorder: EventRecorder
    registry: MetricRegistry
    clock: Clock
    supervisor: Supervisor
    asking: Client  # gives up early: who waits for something says so soon


def parse(arguments: Sequence[str]) -> tuple[AgentOptions, Path | None, int]:
    """Options, kubeconfig and verbosity from the command line, and the node's name if not there.

    Raises:
        KoordError: a flag, its value and what would be right.
        SystemExit: help was asked for.
    """
    told = vars(_parser().parse_args(go_flags.two_dashes(arguments)))
    kubeconfig: Path | None = told.pop("kubeconfig")
    verbosity: int = told.pop("verbosity")
    options = AgentOptions(**{name: told[name] for name in vars(AgentOptions())})
    options = replace(options, node_name=options.node_name or os.environ.get("NODE_NAME", ""))
    if not options.node_name:
        raise KoordError("--node-name", "", "", "this node's name, or NODE_NAME in the environment")
    options.check()
    go_flags.refuse_pairs(PAIRS, options, arguments, OWN)
    return options, kubeconfig, verbosity


def without_effect(arguments: Sequence[str]) -> list[str]:
    """The original's flags among the arguments that do nothing here."""
    return go_flags.without_effect(arguments, UNUSED)


def page() -> HelpPage:
    """The page of help."""
    return go_flags.page(NAME, _TEXT, AgentOptions)


def _parser() -> argparse.ArgumentParser:
    return go_flags.parser(NAME, _TEXT, AgentOptions, UNUSED)


async def _run(options: AgentOptions, kubeconfig: Path | None) -> int:
    from koord.agent.endpoints import AgentEndpoints
    from koord.agent.host.roots import default_roots, require
    from koord.base.clock import SystemClock
    from koord.base.metrics import registry as new_registry
    from koord.base.supervision import Supervisor
    from koord.cli.process.secure_port import open_secure_port
    from koord.kube.client import Client
    from koord.kube.daemon.lifecycle import Component, run_until_stopped
    from koord.kube.events import EventRecorder
    from koord.kube.requests.retry import RetryPolicy
    from koord.kube.transport.credentials import load_cluster_config
    from koord.kube.transport.http import HttpTransport

    roots = options.roots(default_roots())
    where = log.fields(mode=require(roots), cgroup=roots.cgroup, sys=roots.sys, proc=roots.proc)
    log.get("agent").info("looks after the machine", extra=where)
    clock, registry = SystemClock(), new_registry()
    supervisor = Supervisor(NAME, registry, clock)
    cluster = load_cluster_config(kubeconfig)
    transport = HttpTransport(cluster)
    told = begin_dry_run(options.dry_run, registry)
    client = Client(transport, NAME, registry=registry, dry_run=told)
    recorder = EventRecorder(client, NAME, host=options.node_name, clock=clock, metrics=registry)
    host, port = options.listen()
    secure = open_secure_port(host, options, transport, clock)
    endpoints = AgentEndpoints(registry, clock, host, port, secure)
    try:
        await endpoints.start()
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        expected = f"an address of this machine that nobody listens on ({reason})"
        raise KoordError("--addr", "", options.addr, expected) from None
    ready = asyncio.Event()
    asking = Client(transport, NAME, RetryPolicy(attempts=2), timeout_seconds=_ANSWER_SECONDS)
    dependencies = AgentDependencies(client, recorder, registry, clock, supervisor, asking)
    work = partial(_agent, options, cluster, dependencies, endpoints, ready)
    try:
        return await run_until_stopped(
            [
                Component("endpoints", endpoints.run),
                Component("events", partial(supervisor.keep, "events", recorder.run)),
                Component("agent", work, ready.wait),
            ]
        )
    finally:
        await transport.close()


async def _agent(
    options: AgentOptions,
    cluster: ClusterConfig,
    dependencies: AgentDependencies,
    endpoints: Any,
    ready: asyncio.Event,
) -> None:
    from koord.agent.app import Agent, AgentServices
    from koord.agent.host.process_limits import raise_descriptors
    from koord.agent.states.kubelet_latency import TimedTransport
    from koord.agent.states.own_node import own_node
    from koord.base.memory.garbage_collection import keep_memory_low
    from koord.cli.daemons.runtime_part import RuntimePart

    raise_descriptors()
    client, recorder, registry, clock, supervisor, asking = dependencies
    node = await own_node(asking, options.node_name)
    kubelet = _kubelet(options, cluster, node, lambda way: TimedTransport(way, registry, clock))
    machine = _machine(options, node, client.dry_run)
    whole = AgentServices(client, recorder, kubelet, registry, clock, supervisor)
    agent = Agent(options, machine, whole)
    runtime = RuntimePart(agent, clock)
    endpoints.attach(agent)
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(agent.run())
            tasks.create_task(supervisor.keep("NRI", runtime.nri.run))
            tasks.create_task(supervisor.keep("hook server", runtime.server.run))
            watch = partial(_watch_cgroups, agent, machine)
            tasks.create_task(supervisor.keep("cgroups that appear", watch))
            await agent.ready()
            tasks.create_task(supervisor.keep("memory", keep_memory_low))
            ready.set()
    finally:
        if kubelet is not None:
            await kubelet.close()


def _machine(options: AgentOptions, node: Node, dry_run: DryRun | None) -> Machine:
    from koord.agent.host.cgroup_driver import ask_kubelet
    from koord.agent.host.kernel.resctrl_mount import is_to_be_mounted, mount_quietly
    from koord.agent.host.machine import find
    from koord.agent.host.roots import default_roots
    from koord.kernels.cgroup_path import Driver

    roots = options.roots(default_roots())
    if options.gates().enabled("RdtResctrl"):
        if dry_run is None:
            mount_quietly(roots)
        else:
            with suppress(KoordError):  # what cannot be read is told of below
                if is_to_be_mounted(roots):
                    dry_run.record_local("mount", roots.resctrl)
    port = node.status.daemon_endpoints.kubelet_endpoint.port
    driver = Driver(options.cgroup_driver) if options.cgroup_driver else None
    return find(roots, driver, lambda: ask_kubelet(roots.proc, port))


def _kubelet(
    options: AgentOptions,
    cluster: ClusterConfig,
    node: Node,
    timed: Callable[[Transport], Transport],
) -> Kubelet | None:
    from koord.agent.states.kubelet import Kubelet, kubelet_config, kubelet_server
    from koord.kube.transport.http import HttpTransport

    if options.pods_from == "apiserver" and options.disable_query_kubelet_config:
        return None
    server = kubelet_server(
        node,
        (options.kubelet_preferred_address_type,),
        options.kubelet_read_only_port if options.kubelet_insecure_tls else None,
    )
    config = kubelet_config(
        cluster, server, options.kubelet_ca, verify=not options.kubelet_skip_verify
    )
    return Kubelet(timed(HttpTransport(config, connections=2)), options.kubelet_sync_timeout)


async def _watch_cgroups(agent: Agent, machine: Machine) -> None:
    """A pod whose cgroup appears is asked for at once; without inotify the interval remains."""
    from koord.agent.states.cgroup_events import DirectoryEvents
    from koord.kernels.cgroup_path import KubeQos

    if agent.pods is None:
        return
    top = machine.groups_root
    directories = [str(top / machine.layout.qos(qos)) for qos in KubeQos]
    try:
        await DirectoryEvents(directories, agent.pods.poke).run()
    except OSError as error:
        log.get("agent").info("pods are only polled", extra=log.fields(reason=error))


def main() -> None:
    """The console script; errors are one line, exit status 2 for input and 1 for failure."""
    run_program(_program)


def _program() -> int:
    options, kubeconfig, verbosity = parse(sys.argv[1:])
    log.setup(verbosity)
    _stay_small()
    go_flags.warn("agent", without_effect(sys.argv[1:]))
    go_flags.warn_of_pairs("agent", PAIRS, options, sys.argv[1:])
    go_flags.warn_of_gates("agent", options.gates())
    try:
        return asyncio.run(_run(options, kubeconfig))
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("koord"):
            raise
        raise MissingExtraError(error.name, "agent") from None


def _stay_small() -> None:
    """An agent is on every node: what it can do without it does not hold."""
    # NumPy's linear algebra, which nothing here uses, would start a thread a CPU.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Types of files by their names, of which aiohttp keeps a table: no file is served.
    mimetypes.knownfiles.clear()
    _without_authorities()
    from asyncio.sslproto import SSLProtocol

    from koord.agent.host.process_limits import keep_little

    # What each connection sets aside to read into: most are watches, which seldom say anything.
    SSLProtocol.max_size = _TLS_READ_BYTES
    keep_little()


def _without_authorities() -> None:
    """Imports aiohttp, which then reads every authority that the system trusts, twice, into
    contexts that no connection here has: what it trusts is the cluster's configuration's to say.
    """
    told = os.environ.get(_AUTHORITIES)
    os.environ[_AUTHORITIES] = os.devnull
    try:
        with suppress(ModuleNotFoundError):  # told of where it is needed
            importlib.import_module("aiohttp")
    finally:
        del os.environ[_AUTHORITIES]
        if told is not None:
            os.environ[_AUTHORITIES] = told


if __name__ == "__main__":
    main()
