# SPDX-License-Identifier: Apache-2.0
"""What tenants and their operator do: profiles, namespaces, quotas and pods come, change and go."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from koord.api.kinds.cluster import Namespace
from koord.api.kinds.pod import Pod
from koord.api.kinds.profile import ClusterColocationProfile
from koord.api.kinds.quota import ElasticQuota
from koord.api.kinds.registry import KINDS
from koord.kube.client import Client
from koord.kube.errors import ApiError
from koord.kube.patches import Patch

Document = dict[str, Any]
PROFILE, QUOTA = (
    next(kind for kind in KINDS if (kind.name, kind.group) == wanted)
    for wanted in (
        ("ClusterColocationProfile", "config.koordinator.sh"),
        ("ElasticQuota", "scheduling.sigs.k8s.io"),
    )
)
PREFIX = "quota.scheduling.koordinator.sh/"
MARK = "mark.example.com/"
PROFILES, NAMESPACES = ("p0", "p1", "p2"), ("ns-a", "ns-b", "ns-c")
ROOTS, MIDDLES, LEAVES = ("r0", "r1"), ("m0", "m1"), ("l0", "l1", "l2", "l3")
_SEEN_SECONDS = 60.0
_TOLD = {400, 403, 404, 409, 422, 500, 503}
"""What a tenant may be answered here; anything else fails the history."""


class Tenants:
    """They write without waiting for each other.

    Args:
        client: of all of them.
        draw: lots.

    Attributes:
        versions: by profile, the marks that its versions leave.
        answers: how often what was answered to which act.
    """

    def __init__(self, client: Client, draw: random.Random) -> None:
        self._client, self._draw = client, draw
        self.versions: dict[str, set[str]] = {name: set() for name in PROFILES}
        self.answers: Counter[str] = Counter()
        self._pods: list[tuple[str, str]] = []
        self._number = 0
        self._acts: list[Callable[[], Awaitable[object]]] = [
            *[self._create_pod] * 10, *[self._delete_pod] * 2, self._touch_pod,
            *[self._write_profile] * 3, self._delete_profile, *[self._label_namespace] * 2,
            self._turn_namespace, *[self._create_quota] * 2, *[self._update_quota] * 2,
            self._move_quota, self._delete_quota,
        ]  # fmt: skip
        self._takings = [self._create_quota, self._update_quota, self._update_quota,
                         self._move_quota]  # fmt: skip

    async def begin(self) -> None:
        """Namespaces, a profile, and the roots of two trees."""
        for name in NAMESPACES:
            await self._client.create(_namespace(name, "yes"))
        for name in ROOTS:
            found = _quota(name, "", 40, is_parent=True)
            found["metadata"]["labels"][PREFIX + "tree-id"] = f"tree-{name}"
            await self._client.create(found)
        for level in (MIDDLES, LEAVES):
            await asyncio.sleep(_SEEN_SECONDS)
            for name in level:
                with suppress(ApiError):
                    await self._client.create(self._new_quota(name))
        for name in PROFILES:
            await self._client.create(self._profile(name))

    async def act(self, taking: bool = False) -> None:
        """One act of somebody, whatever the answer.

        Args:
            taking: it is one that may take from a parent's minimum.
        """
        act = self._draw.choice(self._takings if taking else self._acts)
        name = act.__name__.strip("_")
        try:
            await act()
        except ApiError as error:
            self.answers[f"{name} {error.http_status}"] += 1
            if error.http_status not in _TOLD:
                raise
        else:
            self.answers[name] += 1

    # -- pods -----------------------------------------------------------------------------------

    async def _create_pod(self) -> None:
        self._number += 1
        namespace, lot = self._draw.choice(NAMESPACES), self._draw.random()
        labels = {"app": self._draw.choice("ab")}
        if lot < 0.6:
            labels[PREFIX + "name"] = self._draw.choice(LEAVES)
        amounts = {"cpu": self._draw.choice(("250m", "1", "2")), "memory": "1Gi"}
        resources = {"requests": amounts, "limits": amounts}
        container = {"name": "main", "image": "app:1", "resources": resources}
        meta = {"name": f"pod-{self._number}", "namespace": namespace, "labels": labels}
        if lot > 0.8:
            meta["generateName"] = meta.pop("name") + "-"
        made = await self._client.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": meta,
                "spec": {"containers": [container]},
            }
        )
        self._pods.append((namespace, made["metadata"]["name"]))

    async def _delete_pod(self) -> None:
        if self._pods:
            at = self._draw.randrange(len(self._pods))
            namespace, name = self._pods.pop(at)
            await self._client.delete(Pod, name, namespace)

    async def _touch_pod(self) -> None:
        if self._pods:
            namespace, name = self._draw.choice(self._pods)
            labels = {"pod.koordinator.sh/mutating-update": "true", "touched": str(self._number)}
            await self._client.patch(
                Pod, name, Patch.merge({"metadata": {"labels": labels}}), namespace
            )

    # -- profiles and namespaces ----------------------------------------------------------------

    def _profile(self, name: str) -> Document:
        """All that it does bears the mark of this version."""
        self._number += 1
        mark = f"v{self._number}"
        self.versions[name].add(mark)
        spec: Document = {
            "labels": {f"{MARK}{name}": mark},
            "annotations": {f"{MARK}{name}": mark},
            "patch": {"spec": {"nodeSelector": {f"{MARK}{name}": mark}}},
        }  # fmt: skip
        if name == "p0":
            spec |= {
                "qosClass": "BE", "priorityClassName": "koord-batch",
                "koordinatorPriority": self._number, "schedulerName": "koord-scheduler",
            }  # fmt: skip
        spec["selector"] = {"matchLabels": {"app": "a"}} if self._draw.random() < 0.5 else {}
        if self._draw.random() < 0.7:
            spec["namespaceSelector"] = {"matchLabels": {"colocation": "yes"}}
        if self._draw.random() < 0.2:
            spec["probability"] = self._draw.choice(("50%", 50, "never"))
        if self._draw.random() < 0.15:
            spec["labelSuffixes"] = {"app": "-be"}
        return {
            "apiVersion": "config.koordinator.sh/v1alpha1", "kind": "ClusterColocationProfile",
            "metadata": {"name": name}, "spec": spec,
        }  # fmt: skip

    async def _write_profile(self) -> None:
        made = self._profile(self._draw.choice(PROFILES))
        name = made["metadata"]["name"]
        try:
            await self._client.create(made)
        except ApiError as error:
            if error.http_status != 409:
                raise
            there = await self._client.get(PROFILE, name)
            await self._client.update({**there, "spec": made["spec"]})

    async def _delete_profile(self) -> None:
        await self._client.delete(ClusterColocationProfile, self._draw.choice(PROFILES))

    async def _label_namespace(self) -> None:
        change = {"metadata": {"labels": {"colocation": self._draw.choice(("yes", "no", None))}}}
        name = self._draw.choice(NAMESPACES)
        await self._client.patch(Namespace, name, Patch.merge(change))

    async def _turn_namespace(self) -> None:
        """A further one comes and goes; a profile's namespaces are looked up where one is new."""
        self._number += 1
        name = f"ns-{self._number}"
        await self._client.create(_namespace(name, "yes"))
        container = {"name": "main", "image": "app:1"}
        meta = {"name": "first", "namespace": name, "labels": {"app": "a"}}
        await self._client.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": meta,
                "spec": {"containers": [container]},
            }
        )
        await self._client.delete(Pod, "first", name)
        await self._client.delete(Namespace, name)

    # -- quotas ---------------------------------------------------------------------------------

    async def _create_quota(self) -> None:
        await self._client.create(self._new_quota(self._draw.choice((*MIDDLES, *LEAVES))))

    def _new_quota(self, name: str) -> Document:
        parents, is_parent = (ROOTS, True) if name in MIDDLES else (MIDDLES, False)
        return _quota(name, self._draw.choice(parents), self._least(name), is_parent)

    async def _update_quota(self) -> None:
        name = self._draw.choice((*ROOTS, *MIDDLES, *MIDDLES, *LEAVES, *LEAVES))
        there = await self._client.get(QUOTA, name, "default")
        there["spec"]["min"] = {"cpu": self._least(name), "memory": "0"}
        await self._client.update(there)

    async def _move_quota(self) -> None:
        name = self._draw.choice((*MIDDLES, *LEAVES))
        there = await self._client.get(QUOTA, name, "default")
        parents = ROOTS if name in MIDDLES else MIDDLES
        there["metadata"]["labels"][PREFIX + "parent"] = self._draw.choice(parents)
        await self._client.update(there)

    async def _delete_quota(self) -> None:
        await self._client.delete(ElasticQuota, self._draw.choice((*MIDDLES, *LEAVES)), "default")

    def _least(self, name: str) -> int:
        low, high = (20, 40) if name in ROOTS else (4, 16) if name in MIDDLES else (0, 7)
        return self._draw.randint(low, high)


def _namespace(name: str, colocation: str) -> Document:
    labels = {"colocation": colocation}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _quota(name: str, parent: str, least: int, is_parent: bool = False) -> Document:
    most = 12 if name in LEAVES else 40
    labels = {PREFIX + "is-parent": json.dumps(is_parent)}
    if parent:
        labels[PREFIX + "parent"] = parent
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"min": {"cpu": least, "memory": "0"}, "max": {"cpu": most, "memory": "1Ti"}},
    }  # fmt: skip
