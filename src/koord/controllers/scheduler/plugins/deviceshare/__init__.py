# SPDX-License-Identifier: Apache-2.0
"""DeviceShare: GPUs, RDMA and FPGA cards by the piece, the part, the partition and the place."""
