// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <string>

#include "check.hpp"
#include "koord/koord.h"

namespace {

koord_topology* four_cpus() {
  const std::array<koord_cpu, 4> cpus = {
      {{0, 0, 0, 0, -1, 1}, {1, 0, 0, 0, -1, 1}, {2, 1, 0, 0, -1, 1}, {3, 1, 0, 0, -1, 1}}};
  koord_topology* machine = nullptr;
  CHECK_EQ(koord_topology_from_cpus(cpus.data(), cpus.size(), &machine), KOORD_OK);
  return machine;
}

}  // namespace

TEST("c_api/picks whole cores beside what is taken") {
  koord_topology* machine = four_cpus();
  const std::array<std::int32_t, 1> taken = {0};
  std::array<std::int32_t, 2> cpus = {-1, -1};
  const koord_pick_request request = {2, KOORD_BIND_FULL_PCPUS, 1, 0, taken.data(), 1};
  CHECK_EQ(koord_pick_cpus(machine, &request, cpus.data()), KOORD_OK);
  CHECK_EQ(cpus[0], 2);
  CHECK_EQ(cpus[1], 3);
  std::array<char, 4> text{};
  std::size_t length = 0;
  CHECK_EQ(koord_format_cpu_list(cpus.data(), 2, text.data(), text.size(), &length), KOORD_OK);
  CHECK_EQ(std::string(text.data()), std::string("2-3"));
  CHECK_EQ(koord_format_cpu_list(cpus.data(), 2, text.data(), 3, &length), KOORD_INVALID);
  CHECK_EQ(length, std::size_t{3});
  CHECK_EQ(std::string(koord_error_text()), std::string("size: got '3', expected 4 bytes or more"));
  koord_topology_free(machine);
}

TEST("c_api/tells the machine") {
  koord_topology* machine = four_cpus();
  koord_cpu cpu;
  CHECK_EQ(koord_abi_version(), KOORD_ABI_VERSION);
  CHECK_EQ(koord_topology_cpu_count(machine), std::size_t{4});
  CHECK_EQ(koord_topology_cpu(machine, 3, &cpu), KOORD_OK);
  CHECK_EQ(cpu.core, 1);
  CHECK_EQ(koord_topology_cpu(machine, 4, &cpu), KOORD_NOT_FOUND);
  koord_topology_free(machine);
  koord_topology_free(nullptr);
}

TEST("c_api/bad arguments are codes and one line") {
  koord_topology* machine = four_cpus();
  koord_topology* none = nullptr;
  std::array<std::int32_t, 8> cpus{};
  koord_pick_request request = {5, 0, 0, 0, nullptr, 0};
  CHECK_EQ(koord_pick_cpus(machine, &request, cpus.data()), KOORD_EXHAUSTED);
  CHECK_EQ(std::string(koord_error_text()),
           std::string("not enough cpus available to satisfy request"));
  request = {1, 9, 0, 0, nullptr, 0};
  CHECK_EQ(koord_pick_cpus(machine, &request, cpus.data()), KOORD_INVALID);
  request = {1, 0, 0, 0, nullptr, 3};
  CHECK_EQ(koord_pick_cpus(machine, &request, cpus.data()), KOORD_INVALID);
  CHECK_EQ(koord_pick_cpus(nullptr, &request, cpus.data()), KOORD_INVALID);
  CHECK_EQ(koord_topology_from_sysfs("/nonexistent", &none), KOORD_SYSTEM);
  CHECK_EQ(koord_topology_from_sysfs(nullptr, &none), KOORD_INVALID);
  CHECK(none == nullptr);
  koord_topology_free(machine);
}
