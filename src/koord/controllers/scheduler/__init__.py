# SPDX-License-Identifier: Apache-2.0
"""koord-scheduler: chooses nodes for pods.

`cache` takes objects in, `queue` orders pods, `decision` chooses and reserves, `cycles` runs the
loop and binds, `plugins` say what fits; `job_planning` places gangs, `preemption` makes room,
`explain` and `debug` tell people. Begin with `scheduler` (how it is put together), then
`cycles.scheduling_loop`; docs/scheduler.md has the whole.
"""
