# SPDX-License-Identifier: Apache-2.0
"""Lets throttled containers exceed their CPU limit for a while."""
