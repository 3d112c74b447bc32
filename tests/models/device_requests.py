# SPDX-License-Identifier: Apache-2.0
"""Legal device requests as one long table, read line by line."""

from __future__ import annotations

K = "koordinator.sh/"
H = "huawei.com/"
TYPES = {
    "gpu": [
        "nvidia.com/gpu", "amd.com/gpu", "dcu.com/gpu", K + "gpu", K + "gpu.shared", K + "gpu-core",
        K + "gpu-memory", K + "gpu-memory-ratio", H + "npu-core", H + "npu-cpu", H + "npu-dvpp",
    ],
    "rdma": [K + "rdma"],
    "fpga": [K + "fpga"],
}  # fmt: skip


def device_requests(asked: dict[str, int]) -> dict[str, dict[str, int]] | str:
    """By type, or the text of the first refusal."""
    found: dict[str, dict[str, int]] = {}
    for kind, names in TYPES.items():
        own = {name: asked[name] for name in names if asked.get(name, 0) != 0}
        if not own:
            continue
        for name in (K + "gpu", K + "rdma", K + "fpga"):
            if name in own and own[name] > 100 and own[name] % 100 != 0:
                return f"invalid resource unit {name}: {own[name]}"
        if not legal(own):
            return f"invalid resource device requests: [{' '.join(sorted(own))}]"
        found[kind] = converted(own)
    return found


def legal(own: dict[str, int]) -> bool:
    names = {name.removeprefix(K).removeprefix(H) for name in own}
    if len(names) == 1 and names <= {"nvidia.com/gpu", "amd.com/gpu", "dcu.com/gpu"}:
        return True
    if names in ({"gpu"}, {"rdma"}, {"fpga"}):
        return True
    if names in (
        {"gpu-memory"},
        {"gpu-memory-ratio"},
        {"gpu-core", "gpu-memory"},
        {"gpu-core", "gpu-memory-ratio"},
        {"npu-core", "gpu-memory-ratio"},
    ):
        return all(
            amount <= 100 or amount % 100 == 0
            for name, amount in own.items()
            if name in (K + "gpu-core", K + "gpu-memory-ratio")
        )
    if "gpu.shared" not in names:
        return False
    shared = own[K + "gpu.shared"]
    rest = names - {"gpu.shared"}
    if rest in ({"npu-core", "npu-cpu", "gpu-memory"},
                {"npu-core", "npu-cpu", "npu-dvpp", "gpu-memory"}):  # fmt: skip
        return shared == 1 and own.get(H + "npu-dvpp", 0) <= 100
    if rest - {"gpu-core"} not in ({"gpu-memory"}, {"gpu-memory-ratio"}):
        return False
    return all(
        own[name] % shared == 0 and own[name] // shared <= 100
        for name in (K + "gpu-core", K + "gpu-memory-ratio")
        if name in own
    )


def converted(own: dict[str, int]) -> dict[str, int]:
    for name in ("nvidia.com/gpu", "amd.com/gpu", "dcu.com/gpu"):
        if name in own:
            return {K + "gpu-core": 100 * own[name], K + "gpu-memory-ratio": 100 * own[name]}
    if K + "gpu" in own:
        return {K + "gpu-core": own[K + "gpu"], K + "gpu-memory-ratio": own[K + "gpu"]}
    return own
