# SPDX-License-Identifier: Apache-2.0
"""The node agent's strategies on modelled hosts, for all machines at once.

`table`, `settings`, `hosts` and `members` are columns of what is configured, of machines and of
pods; `suppress`, `burst` and `evict` apply the agent's own decisions to them; `wishes` says what
each evicting feature wants; `enforcement` takes them turn by turn.
"""
