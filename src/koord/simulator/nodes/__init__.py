# SPDX-License-Identifier: Apache-2.0
"""Simulated machines against any API server.

`pools` and `machine` say what there is, `published_objects` what it publishes, `pod_lifecycle`
is the kubelet, `agents` the agent. Begin with `fleet`, which runs it all.
"""
