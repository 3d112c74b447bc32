# SPDX-License-Identifier: Apache-2.0
"""``koord explain profile``: which pods a ClusterColocationProfile has, or would have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.api.kinds.cluster import Namespace, PriorityClass
from koord.api.kinds.pod import Pod
from koord.api.kinds.profile import ClusterColocationProfile
from koord.api.kinds.registry import kind_of_type
from koord.base.errors import Code, KoordError, one_line
from koord.cli.terminal.output import print_table, say
from koord.controllers.cluster.colocation_profiles.profile_index import usable
from koord.controllers.webhook.preview.profile_reach import PodReach, reach
from koord.kube.client import Client
from koord.kube.errors import ApiError
from koord.kube.requests.retry import RetryPolicy
from koord.kube.transport.credentials import load_cluster_config
from koord.kube.transport.http import HttpTransport

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_NOT_FOUND = 404


async def answer(name: str, kubeconfig: Path | None) -> dict[str, Any]:
    """What a cluster's objects say.

    Raises:
        KoordError: there is no such profile, or it cannot be evaluated.
        ApiError: the cluster refuses to tell.
        ConnectionError: it cannot be reached.
    """
    transport = HttpTransport(load_cluster_config(kubeconfig, None))
    try:
        client = Client(transport, "koord", policy=RetryPolicy(attempts=3))
        try:
            profile = await client.get(ClusterColocationProfile, name)
        except ApiError as error:
            if error.http_status != _NOT_FOUND:
                raise
            expected = "the name of a ClusterColocationProfile"
            raise KoordError("PROFILE", "", name, expected, Code.NOT_FOUND) from None
        chosen = usable(profile)
        namespaces = await client.list(Namespace)
        classes = await client.list(PriorityClass)
        pods = await client.list(kind_of_type(Pod))
    finally:
        await transport.close()
    rows = reach(
        chosen,
        pods.items,
        {each.metadata.name: each for each in namespaces.items},
        {each.metadata.name: each for each in classes.items},
    )
    return {
        "profile": name,
        "owners": [
            {
                "namespace": row.namespace,
                "owner": row.owner,
                **{stands.replace(" ", "_"): row.counts[stands] for stands in PodReach},
                "reasons": row.reasons,
            }
            for row in rows
        ],
    }


def show(document: Mapping[str, Any]) -> None:
    """Prints the answer."""
    owners = document["owners"]
    names = [stands.replace(" ", "_") for stands in PodReach]
    sums = {name: sum(owner[name] for owner in owners) for name in names}
    if not owners:
        say(f"profile {document['profile']}: no pod is selected")
        return
    say(
        f"profile {document['profile']}: {sums['caught']} pods caught, {sums['next_time']} once "
        f"they are made anew, {sums['not_drawn']} not drawn, {sums['refused']} cannot be converted"
    )
    print_table(
        ["NAMESPACE", "OWNER", "CAUGHT", "NEXT TIME", "NOT DRAWN", "REFUSED"],
        [[o["namespace"], o["owner"], *(str(o[name]) for name in names)] for o in owners],
    )
    for owner in owners:
        for reason in owner["reasons"]:
            say(one_line(f"{owner['namespace']}/{owner['owner']}: {reason}"))
