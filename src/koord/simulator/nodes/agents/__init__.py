# SPDX-License-Identifier: Apache-2.0
"""The agents' part: what pods use (`usage_model`), what is reported of it (`node_metric`), what
NodeSLOs make agents do. Begin with `simulated_agents`.
"""
