# SPDX-License-Identifier: Apache-2.0
"""Rules that several kinds share, worded as Kubernetes words them.

A rule appends what is wrong to ``causes``: ``names``, ``quantities``, ``object_meta``,
``resources``, ``scheduling``, ``workload_spec``. Begin with ``causes``.
"""
