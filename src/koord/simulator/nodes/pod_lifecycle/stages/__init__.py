# SPDX-License-Identifier: Apache-2.0
"""Stages of pods as data: ``pod.yaml``, and ``chaos.yaml`` for pods that fail now and then."""
