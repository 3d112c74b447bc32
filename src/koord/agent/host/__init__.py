# SPDX-License-Identifier: Apache-2.0
"""What the machine is: `roots` says where its files are, `machine` finds the rest once at the
start; readers of `/proc` lie in `procfs`, of block devices, GPUs and RDMA cards in `devices`, of
what the kernel offers in `kernel`. Begin with `machine`.
"""
