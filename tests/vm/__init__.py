# SPDX-License-Identifier: Apache-2.0
"""A guest with sockets, SMT, NUMA, cgroup v2 and PSI, for tests on a kernel this machine lacks."""
