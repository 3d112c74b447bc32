# SPDX-License-Identifier: Apache-2.0
"""Quotas for people: debug answers, why a pod is over its quota, which limit would have to rise
(`shortfall`), metrics. Begin with `debug`.
"""
