# SPDX-License-Identifier: Apache-2.0
"""Leases that an earlier ``koord up`` left on the same data.

Whoever holds the folder knows that the process that held it before is gone, and with it the
components that ran in that process: there is nothing to wait for.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING
from uuid import uuid4

from koord.api.protocol.keys import LEADER_ENDPOINT

if TYPE_CHECKING:
    from koord.base.clock import Clock
    from koord.kube.client import Client

_NAMESPACE = "koordinator-system"
_IN_PROCESS = "_koord-up_"


def identity() -> str:
    """Of a component that runs in ``koord up``; another one each time."""
    return f"{socket.gethostname()}{_IN_PROCESS}{uuid4()}"


async def release(client: Client, clock: Clock) -> None:
    """Gives back what components of an earlier process held, and forgets where they answered.

    Leases of programs of their own, which may still run, are left alone.
    """
    import msgspec

    from koord.api.kinds.cluster import Lease, LeaseSpec
    from koord.api.timestamps import micros_text
    from koord.kube.errors import ApiError

    now = micros_text(clock.wall_seconds())
    for lease in (await client.list(Lease, namespace=_NAMESPACE)).items:
        if _IN_PROCESS not in lease.spec.holder_identity:
            continue
        kept = {k: v for k, v in lease.metadata.annotations.items() if k != LEADER_ENDPOINT}
        meta = msgspec.structs.replace(lease.metadata, annotations=kept)
        spec = LeaseSpec("", 1, now, now, lease.spec.lease_transitions)
        try:
            await client.update(Lease(metadata=meta, spec=spec))
        except ApiError as error:
            if error.reason != "Conflict":  # a program of its own has just taken it
                raise
