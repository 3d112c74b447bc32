# SPDX-License-Identifier: Apache-2.0
"""An API server in this process, with built-in controllers: for laptop, simulation and tests.

A request goes ``frontends`` -> ``server`` -> ``requests`` -> ``handlers`` (with ``kinds``,
``schema``, ``patching``, ``admission``) -> ``storage``; ``controllers`` are clients of it. Begin
with ``embedded``, which wires it all, then ``server``.
"""
