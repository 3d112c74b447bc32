# SPDX-License-Identifier: Apache-2.0
"""The two ways in: a socket on loopback, and a transport that calls the server directly.

Both hand :class:`~koord.kube.transport.messages.Request` values to
:class:`koord.controlplane.server.Server`. Begin with ``inprocess``; ``http`` adds TLS, the token
and bounds on what is read.
"""
