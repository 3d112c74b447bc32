# SPDX-License-Identifier: Apache-2.0
"""The hook service: what a proxy of the container runtime asks an agent. `messages` has the types
of its calls, made of ``hooks.proto``, and the names of its methods.
"""
