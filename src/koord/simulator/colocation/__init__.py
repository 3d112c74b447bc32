# SPDX-License-Identifier: Apache-2.0
"""A cluster's day with and without co-location, in virtual time, all machines as columns.

The data goes inputs -> workload -> node_model and control_plane -> execution -> results ->
report. Begin with `execution.day`.
"""
