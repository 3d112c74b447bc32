# SPDX-License-Identifier: Apache-2.0
"""A proxy between a client and a runtime that a test scripts, and a hook server likewise."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc

from koord.base.clock import SystemClock
from koord.base.metrics import registry
from koord.base.supervision import Supervisor
from koord.delivery.cri.messages import CRI, RUNTIME_SERVICE
from koord.delivery.cri.options import RuntimeProxyOptions
from koord.delivery.cri.proxy import RuntimeProxy
from koord.delivery.cri.relay import CHANNEL_OPTIONS
from koord.delivery.hooks.messages import CONTAINER_STAGES, HOOKS, POD_STAGES

Handler = Callable[[Any], Awaitable[None]]
STAGES = [*POD_STAGES, *CONTAINER_STAGES]


class ScriptedServer(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Answers by method; what is not scripted with an empty message.

    Attributes:
        handlers: by the last part of a path; get the call's context.
        answers: messages to answer with, by the last part of a path.
        requests: method and first message of each call that had no handler, in order.
        metadata: of the last call.
    """

    def __init__(self) -> None:
        self.handlers: dict[str, Handler] = {}
        self.answers: dict[str, Any] = {}
        self.requests: list[tuple[str, bytes]] = []
        self.metadata: dict[str, Any] = {}

    def service(self, handler_call_details: Any) -> Any:
        name = handler_call_details.method.rpartition("/")[2]

        async def handle(_: Any, context: Any) -> None:
            self.metadata = dict(context.invocation_metadata())
            if name in self.handlers:
                await self.handlers[name](context)
                return
            message = await context.read()
            self.requests.append((name, message))
            answer = self.answers.get(name)
            if callable(answer):
                answer = answer(message)
            raw = answer if isinstance(answer, bytes) else b""
            await context.write(
                answer.SerializeToString() if hasattr(answer, "SerializeToString") else raw
            )

        return grpc.stream_stream_rpc_method_handler(handle)

    def of(self, name: str) -> list[bytes]:
        return [message for method, message in self.requests if method == name]


class World:
    """All of it; sockets in one folder."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder = folder
        self.runtime, self.hooks = ScriptedServer(), ScriptedServer()
        told = {
            "koord_runtimeproxy_endpoint": str(folder / "p"),
            "remote_runtime_service_endpoint": str(folder / "r"),
            "runtime_hook_config_dir": str(folder / "hooks.d"),
            "state_dir": str(folder / "pods"),
            "cgroup_root_dir": str(folder / "cgroup"),
            "runtime_hook_timeout": 5.0,
            **options,
        }
        self.options = RuntimeProxyOptions(**told)
        self.metrics = registry()
        self.proxy = RuntimeProxy(
            self.options, self.metrics, SystemClock(),
            Supervisor("runtime_proxy", self.metrics, SystemClock()),
        )  # fmt: skip
        self.channel: Any = None
        self._servers: list[Any] = []

    async def serve(self, what: ScriptedServer, name: str) -> Any:
        server = grpc.aio.server(options=CHANNEL_OPTIONS)
        server.add_generic_rpc_handlers((what,))
        server.add_insecure_port(f"unix://{self.folder / name}")
        await server.start()
        self._servers.append(server)
        return server

    def register(self, policy: str = "Ignore", stages: list[str] = STAGES, **more: Any) -> None:
        file = self.folder / "hooks.d" / "hooks.json"
        file.parent.mkdir(exist_ok=True)
        content = {
            "remote-endpoint": str(self.folder / "h"), "failure-policy": policy,
            "runtime-hooks": stages, **more,
        }  # fmt: skip
        file.with_suffix(".new").write_text(json.dumps(content), encoding="utf-8")
        file.with_suffix(".new").replace(file)

    async def call(self, method: str, request: Any, answer: Any = None) -> Any:
        """A call as the kubelet makes it; gives the answer, decoded where a type is given."""
        raw = request if isinstance(request, bytes) else request.SerializeToString()
        reply = await self.channel.unary_unary(f"{RUNTIME_SERVICE}{method}")(raw)
        return reply if answer is None else answer.FromString(reply)

    async def close(self) -> None:
        await self.channel.close()
        await self.proxy.stop()
        for server in self._servers:
            await server.stop(None)


@asynccontextmanager
async def world(folder: Path, **options: Any) -> AsyncIterator[World]:
    made = World(folder, **options)
    await made.serve(made.runtime, "r")
    await made.serve(made.hooks, "h")
    await made.proxy.start()
    made.channel = grpc.aio.insecure_channel(f"unix://{folder / 'p'}", options=CHANNEL_OPTIONS)
    try:
        yield made
    finally:
        await made.close()


def sandbox_config(name: str = "p", **more: Any) -> Any:
    made = CRI.PodSandboxConfig(**more)
    made.metadata.name, made.metadata.uid, made.metadata.namespace = name, f"uid-{name}", "default"
    made.linux.cgroup_parent = "/kubepods/besteffort/podx"
    return made


def create_request(sandbox: str = "s1", **resources: Any) -> Any:
    made = CRI.CreateContainerRequest(pod_sandbox_id=sandbox, sandbox_config=sandbox_config())
    made.config.metadata.name = "main"
    for name, value in resources.items():
        setattr(made.config.linux.resources, name, value)
    return made


def echo(raw: bytes) -> Any:
    """A container's hook answer that changes nothing."""
    request = HOOKS.ContainerResourceHookRequest.FromString(raw)
    return HOOKS.ContainerResourceHookResponse(
        container_annotations=request.container_annotations,
        container_resources=request.container_resources,
        pod_cgroup_parent=request.pod_cgroup_parent,
        container_envs=request.container_envs,
    )


def echo_with(**resources: Any) -> Callable[[bytes], Any]:
    """One that changes resources."""

    def answer(raw: bytes) -> Any:
        made = echo(raw)
        for name, value in resources.items():
            setattr(made.container_resources, name, value)
        return made

    return answer


def make_pod_cgroup(folder: Path, quota: int = -1, cpus: str = "0-7") -> None:
    """Files of a pod's cgroup as version 1 has them."""
    directory = ""
    for part in ("kubepods", "besteffort", "podx"):
        directory = f"{directory}/{part}"
        for controller, files in {
            "cpu": {"cpu.cfs_quota_us": -1, "cpu.cfs_period_us": 100_000},
            "cpuset": {"cpuset.cpus": "0-7", "cpuset.mems": "0"},
        }.items():
            made = folder / "cgroup" / controller / directory.strip("/")
            made.mkdir(parents=True, exist_ok=True)
            for name, value in files.items():
                (made / name).write_text(f"{value}\n")
    pod = folder / "cgroup"
    (pod / "cpu" / directory.strip("/") / "cpu.cfs_quota_us").write_text(f"{quota}\n")
    (pod / "cpuset" / directory.strip("/") / "cpuset.cpus").write_text(f"{cpus}\n")
