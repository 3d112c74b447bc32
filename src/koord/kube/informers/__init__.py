# SPDX-License-Identifier: Apache-2.0
"""A cache of all objects of one kind, kept true by a list and a watch.

``reflector`` lists and watches, ``indexer`` holds the objects and their indexes, ``informer``
puts the two together and calls the handlers. Begin with ``informer``.
"""
