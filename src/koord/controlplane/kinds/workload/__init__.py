# SPDX-License-Identifier: Apache-2.0
"""Kinds with a pod template: Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs, CronJobs.

What all share is :class:`~koord.controlplane.kinds.workload.deployments.WorkloadStrategy`. Begin
with ``deployments``.
"""
