# SPDX-License-Identifier: Apache-2.0
"""How each sort of target is read, written and given back, behind one protocol: cgroup files,
resctrl groups, OOM scores, core scheduling cookies, terway's files. Begin with `target_writer`,
then `cgroup_files`.
"""
