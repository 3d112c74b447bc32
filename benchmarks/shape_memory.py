# SPDX-License-Identifier: Apache-2.0
"""What a shape of pod takes of memory: ``python -m benchmarks.shape_memory``.

Pods no two of which are alike are decoded, decided and held one after the other. What Python and
NumPy hold afterwards, beyond what a pod takes whose shape is known, is told in bytes a shape; and
by its side what a kept entry takes a row, which the board of one shows.
"""

from __future__ import annotations

import argparse
import gc
import tracemalloc
from collections.abc import Sequence

from benchmarks.diverse_pods import CASES, documents
from benchmarks.scheduler_diverse import decoded, place, stock_cluster
from koord.api.kinds.pod import Pod

_CASES = ("labels", "requests", "nodeaffinity", "selectors", "zipf")


def held_bytes(case: str, pods: int, nodes: int) -> tuple[float, float]:
    """Bytes a pod: decoded alone, and all that is held once it is on its node."""
    stock = stock_cluster(nodes)
    bodies = list(documents(case, pods))
    place(stock, decoded(bodies[:10]))
    gc.collect()
    tracemalloc.start()
    waiting: Sequence[Pod] = decoded(bodies[10:])
    gc.collect()
    of_pods = tracemalloc.get_traced_memory()[0]
    place(stock, waiting)
    gc.collect()
    in_all = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return of_pods / len(waiting), in_all / len(waiting)


def shape_bytes(case: str, pods: int, nodes: int) -> float:
    """Bytes a shape beyond what a pod takes whose shape is known, decoding left out."""
    known, new = (held_bytes(each, pods, nodes) for each in ("equal", case))
    return (new[1] - new[0]) - (known[1] - known[0])


def main() -> None:
    """Prints a row for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--case", choices=CASES, nargs="+", default=list(_CASES))
    options = parser.parse_args()
    of_known = held_bytes("equal", options.pods, options.nodes)
    known = of_known[1] - of_known[0]
    print(f"{options.pods} pods on {options.nodes} nodes; bytes a pod")
    print(f"{'equal':13} decoded {of_known[0]:6.0f}, placed {known:6.0f} more")
    for case in options.case:
        decoding, whole = held_bytes(case, options.pods, options.nodes)
        print(
            f"{case:13} decoded {decoding:6.0f}, placed {whole - decoding:6.0f} more: "
            f"{whole - decoding - known:6.0f} a shape",
            flush=True,
        )


if __name__ == "__main__":
    main()
