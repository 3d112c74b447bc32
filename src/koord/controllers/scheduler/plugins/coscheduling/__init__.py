# SPDX-License-Identifier: Apache-2.0
"""Gangs: pods that are scheduled together or not at all.

`objects` reads declarations and the network, `state` keeps gangs, `allocation` places and
preempts for whole jobs, `writers` write PodGroups and the network's tree. Begin with `plugin`,
then `state.gang_cache`. Rules: docs/reference/gangs.md.
"""
