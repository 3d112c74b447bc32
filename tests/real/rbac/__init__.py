# SPDX-License-Identifier: Apache-2.0
"""Holds a component's RBAC manifest against what it does on a real API server.

For any component: run it as its service account over a :class:`recording.Recorder` through a scene
that makes it do all it can do; then every verb that it used must be granted (the server sees to
that), every verb that is granted must have been used, and without any one of them the server must
refuse what needs it.
"""
