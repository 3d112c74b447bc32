# SPDX-License-Identifier: Apache-2.0
"""The agent among real busy processes, on cgroup v1 here and on cgroup v2 in a guest.

An *experiment* runs in a process of its own, as root, in a place of its own: builds a world (a
tree of cgroups, containers, a kubelet, an API server, the agent), lets time pass and gives back
figures. Tests ask a place to run it and judge the figures.

All scenes of a session share one booted guest, the modules that its Python has imported, and
nothing else. They run in it one after the other, each in a process of its own with its own mounts,
cgroups, API server, kubelet and agent; between two of them every process is killed and every cgroup
removed (``tests/vm/guest.py``). The figures of each come back on their own, so that each test
passes or fails by itself. On cgroup v1 scenes share nothing but the machine: those that judge what
CPUs are used for run alone, the others may run several at a time (``pytest -n 3``).
"""
