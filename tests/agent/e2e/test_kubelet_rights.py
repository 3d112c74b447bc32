# SPDX-License-Identifier: Apache-2.0
"""koordlet with the least rights, at kubelets with and without KubeletFineGrainedAuthz.

A kubelet asks the API server whether the caller may; here the one who asks stands in for a kubelet,
the API server that answers is a kube-apiserver. What a kubelet asks for by path: the comment at
GetRequestAttributes in Kubernetes' pkg/kubelet/server/auth.go.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from koord.agent.states.kubelet import Kubelet
from koord.base.errors import KoordError
from koord.kube.transport.messages import Request, Response
from tests.real.plane import RealControlPlane
from tests.real.rbac.account import Account

RBAC = Path(__file__).parents[3] / "deploy" / "rbac"
OWN, PROXY = RBAC / "koordlet.yaml", RBAC / "koordlet-nodes-proxy.yaml"
USER = "system:serviceaccount:koordinator-system:koordlet"
FINE = {"/pods": "pods", "/configz": "configz", "/healthz": "healthz"}
ANSWERS = {
    "/pods": b'{"items": [{"metadata": {"name": "a", "namespace": "b", "uid": "c"}}]}',
    "/configz": b'{"kubeletconfig": {"cpuManagerPolicy": "static"}}',
}


class KubeletDoor:
    """Answers who may; the caller is koordlet.

    Args:
        account: knows the API server.
        fine_grained: the gate; on from Kubernetes 1.33.
    """

    def __init__(self, account: Account, *, fine_grained: bool) -> None:
        self._account = account
        self._fine_grained = fine_grained
        self.paths: set[str] = set()

    async def send(self, request: Request) -> Response:
        """See :class:`koord.kube.transport.messages.Transport`."""
        self.paths.add(request.path)
        path = request.path.rstrip("/")
        wanted = [FINE[path]] if self._fine_grained else []
        for subresource in (*wanted, "proxy"):
            if await self.may(subresource):
                return Response(200, ANSWERS.get(path, b"ok"))
        return Response(403, b"Forbidden")

    async def may(self, subresource: str) -> bool:
        """What the API server says."""
        attributes = {
            "verb": "get", "resource": "nodes", "subresource": subresource, "name": "n1",
        }  # fmt: skip
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": USER, "resourceAttributes": attributes},
        }
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        request = Request("POST", path, body=msgspec.json.encode(body))
        answer = await self._account.admin.send(request)
        allowed: bool = msgspec.json.decode(answer.body)["status"]["allowed"]
        return allowed

    async def close(self) -> None:
        """Nothing to end."""


async def _asked(door: KubeletDoor) -> str:
    """What koordlet hears: of a pod and of a policy, or why not."""
    kubelet = Kubelet(door)  # type: ignore[arg-type]
    try:
        pods, configuration = await kubelet.pods(), await kubelet.configuration()
    except KoordError as error:
        return str(error)
    return f"{pods[0].metadata.name} {configuration.cpu_manager_policy}"


@pytest.mark.real
def test_kubelets_with_and_without_the_finer_rights(real_plane: RealControlPlane) -> None:
    async def story() -> None:
        account = Account(real_plane, OWN)
        fine, coarse = (KubeletDoor(account, fine_grained=gate) for gate in (True, False))
        try:
            await account.apply()
            await _comes(fine, "pods")
            assert await _asked(fine) == "a static"
            # Neither asked for nor given.
            assert fine.paths == {"/pods/", "/configz"}
            assert not await fine.may("healthz")
            refusal = await _asked(coarse)
            assert "expected 200: the agent's account needs get on nodes/pods" in refusal
            assert "(nodes/proxy before Kubernetes 1.33), or --pods-from=apiserver" in refusal
        finally:
            await account.close()
        account = Account(real_plane, OWN, PROXY)
        coarse = KubeletDoor(account, fine_grained=False)
        try:
            await account.apply()
            await _comes(coarse, "proxy")
            assert await _asked(coarse) == "a static"
        finally:
            await account.close()

    asyncio.run(story())


async def _comes(door: KubeletDoor, subresource: str) -> None:
    """The authorizer hears of roles a moment later."""
    for _ in range(200):
        if await door.may(subresource):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(subresource)
