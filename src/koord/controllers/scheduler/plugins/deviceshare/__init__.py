# SPDX-License-Identifier: Apache-2.0
"""DeviceShare: GPUs, RDMA and FPGA cards by the piece, the part, the partition and the place.

Data flows objects -> state -> allocation -> evaluation -> writers; `names` has types and
resources, `reasons` the texts of rejections. Begin with `objects.pod_request`, then
`allocation.allocator`.
"""
