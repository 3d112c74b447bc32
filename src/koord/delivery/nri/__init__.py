# SPDX-License-Identifier: Apache-2.0
"""The Node Resource Interface of containerd and CRI-O, from the wire up: `multiplexer` cuts one
socket into connections, `ttrpc` those into calls, `connection` carries them, `messages` has their
types, `plugin` answers, `adjustments` says hooks' values in the runtime's terms, `plugin_loop`
keeps the one connection. Begin with `plugin`.
"""
