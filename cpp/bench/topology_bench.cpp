// SPDX-License-Identifier: Apache-2.0
// One pick on an empty machine of 64 to 384 CPUs, as in the original's benchmarks, with and without
// sharing; and on a machine where every second core is broken, which takes the fallback.
#include <string>

#include "../tests/topology_machines.hpp"
#include "bench.hpp"
#include "koord/topology_state.hpp"

namespace {

using koord::BindPolicy;
using koord::CpuState;

struct Shape {
  const char* name;
  int sockets, nodes, cores;
};

void add(const std::string& name, std::shared_ptr<const CpuState> state,
         const koord::PickRequest& request) {
  const koord::bench::Register registered(
      "topology/" + name, [state, request] { koord::bench::keep(state->pick(request)); });
}

std::shared_ptr<const CpuState> broken(const koord::Topology& topology) {
  CpuState state(topology);
  koord::CpuSet taken;
  for (int cpu = 0; cpu < topology.online().count(); cpu += 4) taken.insert(cpu);
  state.add("pod", taken);
  return std::make_shared<const CpuState>(std::move(state));
}

const bool kRegistered = [] {
  for (const Shape& shape : {Shape{"64", 2, 1, 16}, Shape{"104", 2, 1, 26}, Shape{"256", 2, 2, 32},
                             Shape{"384", 2, 4, 24}, Shape{"8192", 8, 8, 64}}) {
    const auto topology = koord::test::machine(shape.sockets, shape.nodes, shape.cores, 2);
    const auto empty = std::make_shared<const CpuState>(topology);
    for (const auto bind : {BindPolicy::kFullPCPUs, BindPolicy::kSpread}) {
      const std::string name = std::string(koord::name(bind)) + "/cpus=" + shape.name;
      add(name, empty, {.count = 8, .bind = bind});
      add(name + "/shared", empty, {.count = 8, .bind = bind, .max_ref_count = 2});
    }
    const std::string fallback = std::string("fallback/cpus=") + shape.name;
    add(fallback, broken(topology),
        {.count = topology.online().count() * 5 / 8, .bind = BindPolicy::kFullPCPUs});
  }
  return true;
}();

}  // namespace
