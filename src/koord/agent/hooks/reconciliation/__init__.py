# SPDX-License-Identifier: Apache-2.0
"""Stand-alone delivery: `reconciler` asks hooks about what changed, `response_claims` turns their
responses into claims of the executor, `sandbox` finds a pod's sandbox among its cgroups. Begin
with `reconciler`.
"""
