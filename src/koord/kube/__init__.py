# SPDX-License-Identifier: Apache-2.0
"""The way to an API server: transport, client, informer, work queue, leader election, events."""
