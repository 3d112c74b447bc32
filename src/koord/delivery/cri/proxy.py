# SPDX-License-Identifier: Apache-2.0
"""The proxy as a server: listens where the kubelet connects to, and calls the runtime.

Rule: docs/reference/delivery.md#cri-proxy.
"""

from __future__ import annotations

import asyncio
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.message import DecodeError

from koord.base import log
from koord.base.errors import KoordError, one_line
from koord.delivery.cri.cgroup_limits import CgroupLimitReader
from koord.delivery.cri.hook_calls import HookCalls
from koord.delivery.cri.hook_servers import HookServers
from koord.delivery.cri.interception import InterceptedCall, Interception, RefusedCallError
from koord.delivery.cri.pod_store import PodStore
from koord.delivery.cri.relay import CHANNEL_OPTIONS, RelayedCall, end_call
from koord.delivery.cri.runtime_inventory import RuntimeInventory
from koord.delivery.cri.store_files import StoreFiles
from koord.delivery.nri.call_log import CallLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.base.clock import Clock
    from koord.base.metrics import MetricRegistry
    from koord.base.supervision import Supervisor
    from koord.delivery.cri.options import RuntimeProxyOptions

GRACE_SECONDS = 5.0
"""For calls that are under way when the proxy stops."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.25, 5.0
_MOST_METHODS = 128
_LOG = log.get("runtime-proxy")


class RuntimeProxy(grpc.GenericRpcHandler):  # type: ignore[misc]
    """One proxy.

    Args:
        options: see :class:`RuntimeProxyOptions`.
        metrics: of its calls.
        clock: of what it tells.
        supervisor: of what it does beside passing calls on.
    """

    def __init__(
        self,
        options: RuntimeProxyOptions,
        metrics: MetricRegistry,
        clock: Clock,
        supervisor: Supervisor,
    ) -> None:
        self._options, self._supervisor = options, supervisor
        self._channel = grpc.aio.insecure_channel(
            f"unix://{options.runtime_path()}", options=CHANNEL_OPTIONS
        )
        self._server = grpc.aio.server(options=CHANNEL_OPTIONS)
        self.store = PodStore()
        self._files = StoreFiles(options.state_dir, self.store, metrics)
        self._inventory = RuntimeInventory(self._channel, self.store)
        self._calls = CallLog(clock)
        servers = HookServers(options.runtime_hook_config_dir)
        self.hooks = HookCalls(servers, options.runtime_hook_timeout, self._calls, clock, metrics)
        label = options.runtime_hook_server_key, options.runtime_hook_server_val
        limits = CgroupLimitReader(options.cgroup_root_dir)
        self._interception = Interception(self.hooks, self.store, limits, label)
        self._error = "the runtime was not asked yet"
        self._methods: dict[str, str] = {}
        self._stopped = False
        self._count = metrics.counter(
            "koord_runtime_proxy_calls_total", "Calls of the kubelet.", ("method", "code")
        )

    # -- life ----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Reads what is on disk, and listens.

        Raises:
            KoordError: the socket cannot be made.
        """
        self.hooks.servers.make_directory()
        self._files.load()
        path = self._options.listen_path()
        make_place(Path(path))
        self._server.add_generic_rpc_handlers((self,))
        try:
            self._server.add_insecure_port(f"unix://{path}")
        except RuntimeError as error:
            expected = f"a path where a socket can be made ({one_line(str(error))[:200]})"
            raise KoordError("--koord-runtimeproxy-endpoint", "", path, expected) from None
        Path(path).chmod(0o660)
        await self._server.start()
        _LOG.info("listens", extra=log.fields(socket=path, runtime=self._options.runtime_path()))

    async def run(self) -> None:
        """Serves until cancelled; then lets calls that are under way end for a moment."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for name, work in (
                    ("inventory", self._take_inventory),
                    ("store", self._files.run),
                    ("hooks", self.hooks.run),
                ):
                    tasks.create_task(self._supervisor.keep(name, work))
        finally:
            await self.stop()

    async def stop(self) -> None:
        """Ends all connections; what is remembered is on disk then. May be called again."""
        if self._stopped:
            return
        self._stopped = True
        await self._server.stop(GRACE_SECONDS)
        await self._files.write()
        await self.hooks.close()
        await self._channel.close()

    async def _take_inventory(self) -> None:
        """Asks the runtime for its pods, again until it answers."""
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                await self._inventory.take()
                break
            except (grpc.aio.AioRpcError, DecodeError) as error:
                details = getattr(error, "details", lambda: None)() or str(error)
                text = one_line(details)[:400]
                if text != self._error:
                    _LOG.warning("the runtime does not answer", extra=log.fields(error=text))
                self._error = text
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        self._error = ""
        found = log.fields(runtime=self._inventory.runtime, pods=len(self.store))
        _LOG.info("knows the runtime's pods", extra=found)

    # -- calls ---------------------------------------------------------------------------------

    def service(self, handler_call_details: Any) -> Any:
        """A handler for any method; called by grpc."""
        method = handler_call_details.method

        async def handle(_: Any, context: Any) -> None:
            await self._handle(method, context)

        return grpc.stream_stream_rpc_method_handler(handle)

    async def _handle(self, method: str, context: Any) -> None:
        messages: list[bytes] = []
        ended = False
        if self._interception.hears_of(method):
            # One message and the end, as these methods have it, or it is none of theirs.
            while not ended and len(messages) < 2:
                message = await context.read()
                ended = message is grpc.aio.EOF
                messages += [] if ended else [message]
        if ended and len(messages) == 1:
            await self._handle_hooked(method, context, messages[0])
            return
        call = RelayedCall(self._channel, method, context)
        await call.run(messages, ended=ended)
        self._end(method, call)

    async def _handle_hooked(self, method: str, context: Any, request: bytes) -> None:
        try:
            plan = await self._before(method, request)
        except RefusedCallError as error:
            self._count.labels(self._label(method), "HOOK_SERVER").inc()
            end_call(context, grpc.StatusCode.UNKNOWN, str(error))
            return
        await self._call(method, context, plan)

    async def _before(self, method: str, request: bytes) -> InterceptedCall:
        plan, refusal = InterceptedCall(request), None
        # Whatever fails here, the runtime gets the kubelet's own request.
        with self._supervisor.round("interception", method):
            try:
                plan = await self._interception.before(method, request)
            except RefusedCallError as error:
                refusal = error
        if refusal is not None:
            raise refusal
        return plan

    async def _call(self, method: str, context: Any, plan: InterceptedCall) -> None:
        answered = self._guarded(method, plan.answered) if plan.answered else None
        call = RelayedCall(self._channel, method, context, answered, hold=True)
        await call.run([plan.request], ended=True)
        if call.failed_quietly and plan.fallback is not None:
            _LOG.warning(
                "the runtime refused hooks' values and is asked without them",
                extra=log.fields(method=method, error=one_line(call.details)[:400]),
            )
            call = RelayedCall(self._channel, method, context, answered, hold=True)
            await call.run([plan.fallback], ended=True)
        if call.code is not grpc.StatusCode.OK and plan.failed is not None:
            failed = plan.failed
            self._guarded(method, lambda _: failed())(b"")
        self._end(method, call)

    def _guarded(self, method: str, work: Callable[[bytes], None]) -> Callable[[bytes], None]:
        def run(answer: bytes) -> None:
            with self._supervisor.round("interception", method):
                work(answer)

        return run

    def _end(self, method: str, call: RelayedCall) -> None:
        self._count.labels(self._label(method), call.code.name).inc()
        call.finish()

    def _label(self, method: str) -> str:
        """A method's name, as far as there are not too many."""
        name = self._methods.get(method)
        if name is None:
            if len(self._methods) >= _MOST_METHODS:
                return "other"
            name = self._methods[method] = one_line(method.rpartition("/")[2])[:80]
        return name

    # -- what it tells -------------------------------------------------------------------------

    async def ready(self) -> str | None:
        """None once the runtime has told of its pods; else why not."""
        return self._error or None

    def status(self) -> dict[str, Any]:
        """As ``/status`` shows it."""
        servers = self.hooks.servers
        return {
            "socket": self._options.listen_path(),
            "runtime": self._inventory.runtime,
            "error": self._error,
            "hookServers": [
                {
                    "file": each.name,
                    "endpoint": each.endpoint,
                    "failurePolicy": each.policy.value,
                    "stages": sorted(each.stages),
                    "lastAnswerEmpty": each.name in self.hooks.empty,
                }
                for each in servers.all()
            ],
            "hookServerErrors": dict(sorted(servers.errors.items())),
            "pods": len(self.store),
            "containers": len(self.store.container_ids()),
            "dropped": self.store.dropped,
            "storeError": self._files.error,
            **self._calls.status(),
        }


def make_place(path: Path) -> None:
    """Makes the folder of a socket and removes the socket of a run before.

    Raises:
        KoordError: what is there is no socket, or it cannot be done.
    """
    flag = "--koord-runtimeproxy-endpoint"
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            if not stat.S_ISSOCK(path.lstat().st_mode):
                raise KoordError(flag, "", path, "a path where nothing is but a socket")
            path.unlink()
    except OSError as error:
        expected = f"a path where a socket can be made ({error.strerror})"
        raise KoordError(flag, "", path, expected) from None
