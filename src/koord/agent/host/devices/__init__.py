# SPDX-License-Identifier: Apache-2.0
"""The machine's devices from sysfs, NVML and description files: block devices and mounts, GPUs,
RDMA cards, other accelerators. Begin with `block` or, for GPUs, `gpus` over `nvml`.
"""
