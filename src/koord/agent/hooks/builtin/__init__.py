# SPDX-License-Identifier: Apache-2.0
"""Koord's own hooks, one module each, under the names of their feature gates. Each makes a rule
from the parts of a snapshot that it follows and answers for pods, containers, classes or host
applications. Begin with `oom_score`, the smallest.
"""
