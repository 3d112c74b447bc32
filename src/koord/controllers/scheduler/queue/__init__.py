# SPDX-License-Identifier: Apache-2.0
"""What waits, in which order, and what wakes it: `scheduling_queue` over `subqueues` (active,
backoff, unschedulable, gated), `events` the words of what happens, `queueing_hints` whom an
event may help. Begin with `scheduling_queue`.
"""
