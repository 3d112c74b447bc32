// SPDX-License-Identifier: Apache-2.0
// pick_cpus N [ROOT]: whole cores for a latency-sensitive service, beside what runs already.
#include <cstdlib>
#include <iostream>

#include "koord/topology_state.hpp"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: pick_cpus N [ROOT]\n";
    return 2;
  }
  auto machine = koord::Topology::from_sysfs(argc > 2 ? argv[2] : "/");
  if (!machine) {
    std::cerr << "error: " << machine.error().message() << "\n";
    return 2;
  }
  koord::CpuState state(machine.value());
  state.add("web", {0, 1}, koord::ExclusivePolicy::kPCPULevel);

  const auto pick = state.pick({.count = std::atoi(argv[1]),
                                .bind = koord::BindPolicy::kFullPCPUs,
                                .exclusive = koord::ExclusivePolicy::kPCPULevel});
  if (!pick.ok()) {
    std::cerr << "error: " << koord::reason(pick.status, koord::BindPolicy::kFullPCPUs) << "\n";
    return 1;
  }
  std::cout << pick.cpus.format() << " (" << pick.pass_name() << ")\n";
}
