# SPDX-License-Identifier: Apache-2.0
"""A stand-in for koordlet's hook server: answers what a scene says, late or with nonsense too."""

from __future__ import annotations

import json
import time
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc

from koord.delivery.hooks.messages import CONTAINER_STAGES, HOOKS, POD_STAGES, SERVICE


class StandInHookServer(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Answers with what it was told, and what a scene puts over that.

    Args:
        socket: where it listens.
        configuration: file that names it to a proxy.

    Attributes:
        resources: fields over a container's, by the pod's name.
        environment: variables over a container's, by the pod's name.
        delay_seconds: before an answer.
        answered: how many calls were answered while who called still waited.
        raw: bytes in place of an answer.
        requests: stage and request of each call.
    """

    def __init__(self, socket: Path, configuration: Path) -> None:
        self.socket, self.configuration = socket, configuration
        self.resources: dict[str, dict[str, Any]] = {}
        self.environment: dict[str, dict[str, str]] = {}
        self.delay_seconds = 0.0
        self.answered = 0
        self.raw: bytes | None = None
        self.requests: list[tuple[str, Any]] = []
        self._server: Any = None

    def start(self, policy: str = "Ignore") -> None:
        """Listens, and says so in its file."""
        self._server = grpc.server(futures.ThreadPoolExecutor(4), handlers=[self])
        self._server.add_insecure_port(f"unix://{self.socket}")
        self._server.start()
        self.register(policy)

    def register(self, policy: str) -> None:
        """Writes its file."""
        stages = [*POD_STAGES, *CONTAINER_STAGES]
        self.configuration.parent.mkdir(parents=True, exist_ok=True)
        content = {
            "remote-endpoint": str(self.socket), "failure-policy": policy, "runtime-hooks": stages,
        }  # fmt: skip
        self.configuration.write_text(json.dumps(content), encoding="utf-8")

    def stop(self) -> None:
        """Goes, and leaves its file."""
        self._server.stop(None).wait()

    def stages(self, pod: str) -> list[str]:
        """Those at which it was called for a pod."""
        return [stage for stage, request in self.requests if request.pod_meta.name == pod]

    def service(self, handler_call_details: Any) -> Any:
        """A handler for any method; called by grpc."""
        service, _, method = handler_call_details.method.strip("/").partition("/")
        assert service == SERVICE
        stage = method.removesuffix("Hook")
        return grpc.unary_unary_rpc_method_handler(lambda raw, call: self._answer(stage, raw, call))

    def _answer(self, stage: str, raw: bytes, call: Any) -> bytes:
        pod_stage = stage in POD_STAGES
        kind = "PodSandbox" if pod_stage else "ContainerResource"
        request = getattr(HOOKS, f"{kind}HookRequest").FromString(raw)
        self.requests.append((stage, request))
        time.sleep(self.delay_seconds)
        self.answered += call.is_active()
        if self.raw is not None:
            return self.raw
        if pod_stage:
            answer = HOOKS.PodSandboxHookResponse(
                labels=request.labels, annotations=request.annotations,
                cgroup_parent=request.cgroup_parent, resources=request.resources,
            )  # fmt: skip
        else:
            answer = HOOKS.ContainerResourceHookResponse(
                container_annotations=request.container_annotations,
                container_resources=request.container_resources,
                pod_cgroup_parent=request.pod_cgroup_parent,
                container_envs=request.container_envs,
            )
            for name, value in self.resources.get(request.pod_meta.name, {}).items():
                setattr(answer.container_resources, name, value)
            answer.container_envs.update(self.environment.get(request.pod_meta.name, {}))
        made: bytes = answer.SerializeToString()
        return made
