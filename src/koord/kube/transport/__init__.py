# SPDX-License-Identifier: Apache-2.0
"""Requests as bytes: over HTTP/1.1 with TLS and credentials, or to a server in the same process.

Begin with ``messages`` (request, response, stream, transport); ``http`` carries them, over
``connection`` where they write; ``config`` says where a server is and ``credentials`` where that
is read from.
"""
