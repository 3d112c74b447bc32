// SPDX-License-Identifier: Apache-2.0
// The C ABI: no exception leaves it, no C++ type enters it.
#include <cstring>
#include <exception>
#include <new>

#include "koord/koord.h"
#include "koord/topology_state.hpp"

struct koord_topology {
  koord::Topology topology;
};

namespace {

thread_local std::string last_error;

koord_error fail(koord_error code, std::string text) noexcept {
  last_error = std::move(text);
  return code;
}

// The numbers of koord_error and koord::Errc are the same.
koord_error fail(const koord::Error& error) {
  return fail(static_cast<koord_error>(error.code), error.message());
}

template <class Body>
koord_error guarded(Body body) noexcept {
  try {
    return body();
  } catch (const koord::Exception& exception) {
    return fail(exception.error());
  } catch (const std::bad_alloc&) {
    return fail(KOORD_SYSTEM, "out of memory");
  } catch (const std::exception& exception) {
    return fail(KOORD_SYSTEM, exception.what());
  }
}

koord_error null_argument(const char* name) {
  return fail(koord::invalid(name, "null", "a pointer"));
}

koord_error give(koord::Result<koord::Topology> result, koord_topology** out) {
  if (!result) return fail(result.error());
  *out = new koord_topology{std::move(result).value()};
  return KOORD_OK;
}

koord::CpuSet set_of(const std::int32_t* cpus, std::size_t count) {
  koord::CpuSet set;
  for (std::size_t i = 0; i < count; ++i) set.insert(cpus[i]);
  return set;
}

// Which field of a request is out of its range; null when all are good.
const char* bad_field(const koord_pick_request& request) {
  if (request.count < 0) return "count";
  if (request.bind < KOORD_BIND_DEFAULT || request.bind > KOORD_BIND_SPREAD_BY_PCPUS) return "bind";
  if (request.strategy < KOORD_NUMA_MOST_ALLOCATED ||
      request.strategy > KOORD_NUMA_DISTRIBUTE_EVENLY) {
    return "strategy";
  }
  return request.taken == nullptr && request.taken_count > 0 ? "taken" : nullptr;
}

}  // namespace

int koord_abi_version(void) { return KOORD_ABI_VERSION; }

const char* koord_error_text(void) { return last_error.c_str(); }

koord_error koord_topology_from_cpus(const koord_cpu* cpus, size_t count, koord_topology** out) {
  return guarded([&] {
    if (cpus == nullptr && count > 0) return null_argument("cpus");
    if (out == nullptr) return null_argument("out");
    std::vector<koord::CpuInfo> machine;
    for (const koord_cpu* cpu = cpus; cpu != cpus + count; ++cpu) {
      machine.push_back({.cpu = cpu->cpu,
                         .core = cpu->core,
                         .socket = cpu->socket,
                         .node = cpu->node,
                         .l3 = cpu->l3,
                         .online = cpu->online != 0});
    }
    return give(koord::Topology::from_cpus(std::move(machine)), out);
  });
}

koord_error koord_topology_from_sysfs(const char* root, koord_topology** out) {
  return guarded([&] {
    if (root == nullptr) return null_argument("root");
    if (out == nullptr) return null_argument("out");
    return give(koord::Topology::from_sysfs(root), out);
  });
}

void koord_topology_free(koord_topology* topology) { delete topology; }

size_t koord_topology_cpu_count(const koord_topology* topology) {
  return topology == nullptr ? 0 : topology->topology.cpus().size();
}

koord_error koord_topology_cpu(const koord_topology* topology, size_t index, koord_cpu* out) {
  return guarded([&] {
    if (topology == nullptr) return null_argument("topology");
    if (out == nullptr) return null_argument("out");
    const auto cpus = topology->topology.cpus();
    if (index >= cpus.size()) {
      return fail(koord::not_found("index", std::to_string(index),
                                   "one below " + std::to_string(cpus.size())));
    }
    const koord::CpuInfo& cpu = cpus[index];
    *out = {cpu.cpu, cpu.core, cpu.socket, cpu.node, cpu.l3, cpu.online ? 1 : 0};
    return KOORD_OK;
  });
}

koord_error koord_pick_cpus(const koord_topology* topology, const koord_pick_request* request,
                            int32_t* cpus) {
  return guarded([&] {
    if (topology == nullptr) return null_argument("topology");
    if (request == nullptr) return null_argument("request");
    if (cpus == nullptr && request->count > 0) return null_argument("cpus");
    if (const char* field = bad_field(*request)) {
      return fail(koord::invalid(field, "a number out of range", "a value that koord.h names"));
    }
    const auto bind = static_cast<koord::BindPolicy>(request->bind);
    const koord::CpuSet taken = set_of(request->taken, request->taken_count);
    const koord::CpuState state(topology->topology);
    const auto pick = state.pick({.count = request->count,
                                  .bind = bind,
                                  .required = request->required != 0,
                                  .strategy = static_cast<koord::NumaStrategy>(request->strategy),
                                  .reserved = &taken});
    if (!pick.ok()) return fail(KOORD_EXHAUSTED, koord::reason(pick.status, bind));
    for (const int cpu : pick.cpus) *cpus++ = cpu;
    return KOORD_OK;
  });
}

koord_error koord_format_cpu_list(const int32_t* cpus, size_t count, char* text, size_t size,
                                  size_t* length) {
  return guarded([&] {
    if (cpus == nullptr && count > 0) return null_argument("cpus");
    if (text == nullptr && size > 0) return null_argument("text");
    const std::string list = set_of(cpus, count).format();
    if (length != nullptr) *length = list.size();
    if (size <= list.size()) {
      return fail(koord::invalid("size", std::to_string(size),
                                 std::to_string(list.size() + 1) + " bytes or more"));
    }
    std::memcpy(text, list.c_str(), list.size() + 1);
    return KOORD_OK;
  });
}
