// SPDX-License-Identifier: Apache-2.0
#include "koord/topology.hpp"

#include "check.hpp"
#include "koord/topology_state.hpp"
#include "topology_machines.hpp"

using koord::CpuSet;
using koord::CpuState;
using koord::kUnknown;
using koord::Topology;
using koord::test::machine;

TEST("topology/cores are unique on the machine though ids repeat between sockets") {
  const auto topology =
      Topology::from_cpus({{.cpu = 1, .core = 0, .socket = 1}, {.cpu = 0, .core = 0, .socket = 0}})
          .value();
  CHECK_EQ(topology.cpus()[0].core, 0);
  CHECK_EQ(topology.cpus()[1].core, 1);
  CHECK_EQ(topology.summary().cores, 2);
}

TEST("topology/what is not known is not counted") {
  const auto summary =
      Topology::from_cpus({{.cpu = 3}, {.cpu = 7, .online = false}}).value().summary();
  CHECK_EQ(summary.cpus, 1);
  CHECK_EQ(summary.cores, kUnknown);
  CHECK_EQ(summary.sockets, kUnknown);
  CHECK_EQ(summary.nodes, kUnknown);
  CHECK_EQ(summary.l3, kUnknown);
  CHECK_EQ(summary.threads_per_core, kUnknown);
}

TEST("topology/bad machines are refused") {
  CHECK(!Topology::from_cpus({}).ok());
  CHECK(!Topology::from_cpus({{.cpu = 0}, {.cpu = 0}}).ok());
  CHECK(!Topology::from_cpus({{.cpu = CpuSet::kMaxId + 1}}).ok());
  CHECK(!Topology::from_cpus({{.cpu = -1}}).ok());
  CHECK(!Topology::from_cpus({{.cpu = 0, .node = -7}}).ok());
  CHECK(!Topology::from_cpus({{.cpu = 0, .online = false}}).ok());
}

TEST("topology/a root without sys is refused by name") {
  const auto missing = Topology::from_sysfs("/nonexistent");
  CHECK(!missing.ok());
  CHECK(missing.error().code == koord::Errc::kSystem);
  CHECK_EQ(missing.error().message(), std::string("read /nonexistent: No such file or directory"));
  const auto empty = Topology::from_sysfs("/proc/self");
  CHECK_EQ(empty.error().message(),
           std::string("root: got '/proc/self', expected a directory that contains "
                       "sys/devices/system/cpu"));
}

TEST("topology/this machine can be read and picked from") {
  const auto topology = Topology::from_sysfs("/").value();
  CHECK(topology.summary().cpus > 0);
  CHECK_EQ(CpuState(topology).pick({.count = 1}).cpus.count(), 1);
}

TEST("topology/the largest machine is whole") {
  const auto topology = machine(8, 8, 64, 2);
  const CpuState state(topology);
  CHECK_EQ(topology.summary().cpus, CpuSet::kMaxId + 1);
  for (const int count : {1, 127, 128, 1023, 1025, 8191, 8192}) {
    for (const auto bind : {koord::BindPolicy::kFullPCPUs, koord::BindPolicy::kSpread}) {
      CHECK_EQ(state.pick({.count = count, .bind = bind}).cpus.count(), count);
    }
  }
  CHECK(!state.pick({.count = 8193}).ok());
}
