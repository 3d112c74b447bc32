# SPDX-License-Identifier: Apache-2.0
"""Where a pod goes: `decider` filters, scores, chooses and reserves, one synchronous function
without I/O; `nominations` are nodes that preemption has made room on; `timed_plugins` measures
every tenth attempt. Begin with `decider`.
"""
