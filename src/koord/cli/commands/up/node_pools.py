# SPDX-License-Identifier: Apache-2.0
"""Which machines ``koord up`` simulates: those asked for, else those of the data folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base.errors import KoordError
from koord.cli.commands.up import options as options

if TYPE_CHECKING:
    from pathlib import Path

    from koord.simulator.nodes.pools import NodePools

# Beside the state whose nodes they are, as a file that --pools takes too.
KEPT = "pools.json"


def resolve_pools(
    nodes: int | None, path: Path | None, colocation: bool, data: Path | None
) -> NodePools:
    """The machines of a command line.

    Args:
        nodes: how many; None where it does not say.
        path: of a file that describes them; None for none.
        colocation: whether a day of co-location is shown.
        data: the folder that keeps the state. Its nodes go on only as machines of the same
            names, so that without a word about machines they are those of the last time.

    Raises:
        KoordError: both ways at once, or a file that cannot be.
    """
    from koord.simulator.live import initial_config
    from koord.simulator.nodes.pools import default_pools, load_pools

    if path is not None and nodes is not None:
        raise KoordError("--nodes", "", nodes, "no number beside --pools")
    if path is not None:
        return load_pools(path)
    if colocation:
        return initial_config.pools(options.COLOCATION_NODES if nodes is None else nodes)
    if nodes is None and data is not None and (data / KEPT).exists():
        return load_pools(data / KEPT)
    return default_pools(options.DEFAULT_NODES if nodes is None else nodes)


def keep(pools: NodePools, data: Path) -> None:
    """Writes the machines into the data folder, for starts that say nothing of them.

    Raises:
        KoordError: the folder cannot be written.
    """
    import msgspec

    from koord.controlplane.credentials.pki import write_private
    from koord.simulator.nodes.pools import API_VERSION, KIND

    fields = msgspec.to_builtins(pools)
    document = {"apiVersion": API_VERSION, "kind": KIND, **fields}
    try:
        write_private(data / KEPT, msgspec.json.format(msgspec.json.encode(document)) + b"\n")
    except OSError as error:
        raise KoordError.wrap(str(data / KEPT), "", error) from None
