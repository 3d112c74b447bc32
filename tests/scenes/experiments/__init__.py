# SPDX-License-Identifier: Apache-2.0
"""Experiments: each module has ``run(world, ...)``, which gives figures that JSON can hold."""
