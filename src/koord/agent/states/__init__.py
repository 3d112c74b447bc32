# SPDX-License-Identifier: Apache-2.0
"""What the agent knows of the cluster, each part with its age: pods from the kubelet or the API
server, the Node, NodeSLO and NodeMetric spec under their defaults. Sources fill `state_store`;
readers get a `snapshot`. Begin with `snapshot`, then `pod_state`.
"""
