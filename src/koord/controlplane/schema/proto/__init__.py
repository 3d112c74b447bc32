# SPDX-License-Identifier: Apache-2.0
"""Request bodies in protobuf, as client-go sends core kinds, turned into JSON documents.

``wire`` is the wire format, ``wellknown`` the types that are no plain messages, ``protobuf`` the
whole body. Begin there.
"""
