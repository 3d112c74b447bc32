# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for kernel files that no machine here has: resctrl, and cgroup files of some kernels.

`model` says what a directory and a file do, `fuse` mounts it, so that native code and a daemon meet
the same errors as from the kernel. Tests that rely on one say ``stand_in`` in their names.
"""
