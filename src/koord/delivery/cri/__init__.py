# SPDX-License-Identifier: Apache-2.0
"""The proxy between a kubelet and its container runtime. `relay` passes calls on as bytes, and
`interception` says what is done with the few that hook servers hear of: `hook_servers` knows who is
called, `hook_calls` and `hook_client` call, `hook_requests` and `hook_answers` translate,
`cgroup_limits` says what a kernel takes. `pod_store` remembers pods and containers, `store_files`
over restarts, `runtime_inventory` asks the runtime for them. `proxy` is all of it. Begin with
`relay`.
"""
