// SPDX-License-Identifier: Apache-2.0
// Regular machines for tests and benchmarks.
#pragma once

#include <vector>

#include "koord/topology.hpp"

namespace koord::test {

/// Ids nested, the threads of a core adjacent; nodes and cores are per socket and per node.
inline Topology machine(int sockets, int nodes, int cores, int threads) {
  std::vector<CpuInfo> cpus;
  const int per_node = cores * threads;
  for (int cpu = 0; cpu < sockets * nodes * per_node; ++cpu) {
    cpus.push_back({.cpu = cpu,
                    .core = cpu / threads,
                    .socket = cpu / (nodes * per_node),
                    .node = cpu / per_node});
  }
  return Topology::from_cpus(std::move(cpus)).value();
}

}  // namespace koord::test
