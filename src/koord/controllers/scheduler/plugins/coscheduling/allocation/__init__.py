# SPDX-License-Identifier: Apache-2.0
"""A whole job onto nodes: `gang_job` is what the planner sees, `node_capacity` how many pods each
node takes, `placement_solver` where in the network, `network_placement` does it;
`job_preemption` makes room. Begin with `gang_job`.
"""
