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

// The rule of choose() with kBest for one device, minor by minor.
MinorMask best_slowly(const DeviceTable& table, std::uint32_t row, std::int64_t amount) {
  int best = -1;
  int lowest = -1;
  bool all_idle = true;
  for (int minor = 0; minor < table.width(row); ++minor) {
    const std::int64_t left = table.free(row, 0)[static_cast<std::size_t>(minor)];
    if (left < amount) continue;
    if (lowest < 0) lowest = minor;
    all_idle = all_idle && ((table.idle(row) >> minor) & 1) != 0;
    if (best < 0 || left < table.free(row, 0)[static_cast<std::size_t>(best)]) best = minor;
  }
  if (best < 0) return 0;
  return MinorMask{1} << (all_idle ? lowest : best);
}

// Nodes of none to 64 devices, of few sizes and much the same use, so that ties are common.
DeviceTable uneven_table(koord::SplitMix64& random) {
  DeviceTable table({"core", "memory"});
  for (std::uint32_t row = 0; row < 40; ++row) {
    std::vector<Device> devices;
    const auto width = static_cast<int>(random.below(row % 8 == 0 ? 64 : 12));
    for (int minor = 0; minor < width; ++minor) {
      const auto size = static_cast<std::int64_t>(random.below(4)) * 50;
      if (random.below(6) != 0) devices.push_back({.minor = minor, .total = {size, 10}});
    }
    table.add_row(devices);
    if (random.below(4) == 0) continue;  // a node that nobody uses
    for (int minor = 0; minor < table.width(row); ++minor) {
      const auto much = static_cast<std::int64_t>(random.below(4)) * 25;
      table.charge(row, minor, std::vector<std::int64_t>{much, random.below(4) == 0 ? 5 : 0});
    }
  }
  return table;
}

TEST("devices/the best device of each of many rows, minor by minor") {
  koord::SplitMix64 random(20261128);
  for (int round = 0; round < 200; ++round) {
    const DeviceTable table = uneven_table(random);
    const Request request{{1 + static_cast<std::int64_t>(random.below(120)), 0}, 1};
    std::vector<std::uint8_t> mask(table.rows());
    for (auto& each : mask) each = static_cast<std::uint8_t>(random.below(4) != 0);
    constexpr MinorMask kUntouched = 0x5eed;
    std::vector<MinorMask> chosen(mask.size(), kUntouched);
    const auto first = static_cast<std::uint32_t>(random.below(mask.size()));
    table.choose_best(request, first, std::span(mask).subspan(first),
                      std::span(chosen).subspan(first));
    for (std::uint32_t row = 0; row < mask.size(); ++row) {
      const MinorMask slowly = best_slowly(table, row, request.each[0]);
      CHECK_EQ(table.choose(row, request, Choice::kBest), slowly);
      CHECK_EQ(chosen[row], row >= first && mask[row] != 0 ? slowly : kUntouched);
    }
  }
}
