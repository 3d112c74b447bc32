# SPDX-License-Identifier: Apache-2.0
"""slo-controller-config for all controllers: the last good configuration, what it says of each node
(worked out once for nodes alike), events about what is wrong with it. Begin with `config_cache`.
"""
