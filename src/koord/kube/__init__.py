# SPDX-License-Identifier: Apache-2.0
"""The way to an API server, for whoever watches or changes objects.

``transport`` carries requests, ``requests`` makes them and tries again, ``codec`` decodes what
comes back, ``informers`` keep caches of it, ``daemon`` is what a program serves of itself. Begin
with :mod:`koord.kube.client`, then ``informers``.
"""
