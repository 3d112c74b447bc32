# SPDX-License-Identifier: Apache-2.0
"""The start of an agent: it waits for its node, and says once for what."""

from __future__ import annotations

import pytest

from koord.agent.states.own_node import own_node
from koord.base.clock import VirtualClock
from koord.base.errors import KoordError
from koord.kube.client import Client
from koord.kube.errors import ApiError, TransportError
from koord.kube.requests.retry import RetryPolicy
from koord.kube.transport.messages import Response
from tests.kube.harness import FakeTransport, run_virtual

NODE = b'{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}'
MISSING = Response(404, b'{"kind": "Status", "code": 404, "message": "nodes \\"n1\\" not found"}')
AWAY = TransportError("https://127.0.0.1:1: GET /api/v1/nodes/n1: Connection refused", sent=False)


def asked(*script: Response | Exception) -> str:
    """The name of the node in the end."""
    client = Client(FakeTransport(list(script)), "koordlet", RetryPolicy(attempts=1))

    async def story() -> str:
        return (await own_node(client, "n1")).metadata.name

    return run_virtual(story(), VirtualClock(1_700_000_000.0))


def test_what_is_waited_for_is_said_once_each(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "koord")
    assert asked(AWAY, AWAY, AWAY, MISSING, MISSING, Response(200, NODE)) == "n1"
    assert [(r.getMessage(), vars(r)["koord_fields"]) for r in caplog.records] == [
        (
            "waiting for the node",
            {
                "node": "n1",
                "reason": "https://127.0.0.1:1: GET /api/v1/nodes/n1: Connection refused",
            },
        ),
        ("waiting for the node", {"node": "n1", "reason": "no such Node yet"}),
        ("the node is there", {"node": "n1", "tries": 6}),
    ]


def test_credentials_that_nobody_takes_end_it() -> None:
    refusal = Response(401, b'{"kind": "Status", "code": 401, "message": "Unauthorized"}')
    with pytest.raises(KoordError) as refused:
        asked(refusal)
    assert str(refused.value) == (
        "the API server, asked for Node n1: got 'Unauthorized', expected credentials that it takes:"
        " those of --kubeconfig, KUBECONFIG or the pod"
    )


def test_a_grant_that_lacks_ends_it_in_the_words_of_the_server() -> None:
    said = b'{"kind": "Status", "code": 403, "message": "nodes is forbidden: User x cannot get"}'
    with pytest.raises(ApiError, match="nodes is forbidden: User x cannot get"):
        asked(Response(403, said))
