# SPDX-License-Identifier: Apache-2.0
"""The scheduling cycle and the binding cycle: `scheduling_loop` takes pods from the queue and has
them decided, `binder` carries it out, `failure_writer` tells why there is no node;
`surrogate_pods` are pods that stand for other objects. Begin with `scheduling_loop`.
"""
