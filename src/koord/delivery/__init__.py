# SPDX-License-Identifier: Apache-2.0
"""How hooks reach a container runtime before a container runs: `nri`, the Node Resource Interface.

The hooks are the agent's own (:mod:`koord.agent.hooks`); nothing here decides a value.
"""
