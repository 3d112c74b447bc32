// SPDX-License-Identifier: Apache-2.0
#include "koord/devices.hpp"

#include "check.hpp"

using namespace koord::devices;
using koord::Exception;

namespace {

DeviceTable eight_gpus() {
  DeviceTable table({"core", "memory"});
  std::vector<Device> gpus;
  for (std::int32_t minor = 0; minor < 8; ++minor) {
    gpus.push_back({.minor = minor,
                    .total = {100, 16},
                    .numa_node = minor / 4,
                    .pcie = minor / 2,
                    .labels = {minor % 2 == 0 ? "slot=even" : "slot=odd"}});
  }
  table.add_row(gpus);
  return table;
}

const Request kWhole{{100, 0}, 1};
const Request kHalf{{50, 0}, 1};
const Scoring kLeast{Strategy::kLeastAllocated, {1, 0}};
const Scoring kMost{Strategy::kMostAllocated, {1, 0}};

}  // namespace

TEST("devices/the strategy decides, then the minor") {
  DeviceTable table = eight_gpus();
  CHECK_EQ(table.allocate(0, kWhole, {}, {}), MinorMask{1});
  table.take(0, 0b1, std::vector<std::int64_t>{50, 0});
  CHECK_EQ(table.allocate(0, kHalf, {}, kLeast), MinorMask{0b10});
  CHECK_EQ(table.allocate(0, kHalf, {}, kMost), MinorMask{0b1});
}

TEST("devices/constraints narrow, preferences order") {
  const DeviceTable table = eight_gpus();
  const Request two{{100, 0}, 2};
  CHECK_EQ(table.allocate(0, two, {.numa_nodes = 0b10}, {}), MinorMask{0b110000});
  CHECK_EQ(table.allocate(0, two, {.required = 0b1}, {}), MinorMask{0});
  CHECK_EQ(table.allocate(0, two, {.preferred = 0b100000}, {}), MinorMask{0b100001});
  CHECK_EQ(table.allocate(0, two, {.labels = {"slot=odd"}}, {}), MinorMask{0b1010});
  CHECK_EQ(table.allocate(0, two, {.preferred_pcies = {3, 1}}, {}), MinorMask{0b1000100});
}

TEST("devices/a change has an exact inverse") {
  DeviceTable table = eight_gpus();
  const std::vector<std::int64_t> each{30, 4};
  table.take(0, 0b101, each);
  CHECK_EQ(table.free_sums()[0], 740);
  CHECK_EQ(table.idle(0), MinorMask{0b11111010});
  table.give_back(0, 0b101, each);
  CHECK_EQ(table.free_sums()[0], 800);
  CHECK_EQ(table.idle(0), MinorMask{0xff});
  CHECK_THROWS(table.give_back(0, 0b101, each), Exception);
  CHECK_EQ(table.free_sums()[0], 800);
}

TEST("devices/taking more than is free changes nothing") {
  DeviceTable table = eight_gpus();
  CHECK_THROWS(table.take(0, 0b1, std::vector<std::int64_t>{101, 0}), Exception);
  CHECK_THROWS(table.take(0, MinorMask{1} << 40, std::vector<std::int64_t>{1, 0}), Exception);
  CHECK_EQ(table.free_sums()[0], 800);
}

TEST("devices/a row that grows moves, and its neighbour stays") {
  DeviceTable table({"core"});
  table.add_row(std::vector<Device>{{.minor = 0, .total = {100}}});
  table.add_row(std::vector<Device>{{.minor = 0, .total = {70}}});
  table.take(0, 1, std::vector<std::int64_t>{40});
  table.update_row(0,
                   std::vector<Device>{{.minor = 0, .total = {100}}, {.minor = 63, .total = {9}}});
  CHECK_EQ(table.width(0), 64);
  CHECK_EQ(table.free(0, 0)[0], 60);
  CHECK_EQ(table.free(0, 0)[63], 9);
  CHECK_EQ(table.free(1, 0)[0], 70);
}

TEST("devices/GPU memory is completed from the card") {
  const std::int64_t card = std::int64_t{16} << 30;
  CHECK(complete_memory({0, 50}, card) == (GpuMemory{std::int64_t{8} << 30, 50}));
  CHECK(complete_memory({std::int64_t{8} << 30, 0}, card) ==
        (GpuMemory{std::int64_t{8} << 30, 50}));
  CHECK(complete_memory({29, 0}, 100) == (GpuMemory{29, 28}));  // 0.29 * 100 in double
  CHECK_THROWS(complete_memory({1, 0}, 0), koord::Exception);
}

TEST("devices/a draw is fair and repeatable") {
  koord::SplitMix64 lots(11);
  std::vector<int> drawn(3, 0);
  for (int i = 0; i < 3000; ++i) ++drawn[lots.below(3)];
  for (const int count : drawn) CHECK(count > 900 && count < 1100);
  CHECK_EQ(koord::SplitMix64(0).next(), 0xe220a8397b1dcdafU);
}
