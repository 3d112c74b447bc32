# SPDX-License-Identifier: Apache-2.0
"""What the scheduler knows of nodes and pods: objects come in by `event_handlers`; `orphans` are
pods on nodes that are not known; `local_views` stand for informers where there is no cluster.
Counting pods on nodes is `framework.accounts`. Begin with `event_handlers`.
"""
