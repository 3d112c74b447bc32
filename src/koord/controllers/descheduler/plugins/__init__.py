# SPDX-License-Identifier: Apache-2.0
"""Strategies and evictors, a module each; those of kubernetes-sigs/descheduler are in
``kubernetes``. The registry (``framework.registry``) lists them by name.
"""
