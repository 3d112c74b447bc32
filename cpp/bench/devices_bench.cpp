// SPDX-License-Identifier: Apache-2.0
#include "bench.hpp"
#include "koord/devices.hpp"
#include "koord/fragmentation.hpp"

namespace {

using namespace koord::devices;

constexpr Strategy kMost = Strategy::kMostAllocated;
const std::vector<std::int64_t> kFree = {1000, 810, 190, 540, 0, 1000, 330, 660};

DeviceTable eight_gpus() {
  DeviceTable table({"core", "memory"});
  std::vector<Device> gpus;
  for (std::int32_t minor = 0; minor < 8; ++minor) {
    gpus.push_back({.minor = minor, .total = {100, 16}, .pcie = minor / 2});
  }
  table.add_row(gpus);
  return table;
}

const FragmentationMeasure& measure() {
  static const FragmentationMeasure one = [] {
    std::vector<ShapeCount> counts;
    for (std::int64_t n = 0; n < 35; ++n) {
      counts.push_back({{1000 * (n % 9), 50 + 27 * n, 1, ""}, 100 - n});
    }
    return FragmentationMeasure(typical_pods(counts, 100));
  }();
  return one;
}

const koord::bench::Register kChoose("devices/choose the best of 8 GPUs", [] {
  static const DeviceTable table = eight_gpus();
  koord::bench::keep(table.choose(0, {{50, 0}, 1}, Choice::kBest));
});

const koord::bench::Register kAllocate("devices/allocate 2 of 8 GPUs by score", [] {
  static const DeviceTable table = eight_gpus();
  static const Scoring scoring{kMost, {1, 1}};
  koord::bench::keep(table.allocate(0, {{50, 4}, 2}, {}, scoring));
});

const koord::bench::Register kTake("devices/take and give back", [] {
  static DeviceTable table = eight_gpus();
  static const std::vector<std::int64_t> each{50, 4};
  table.take(0, 0b11, each);
  table.give_back(0, 0b11, each);
});

const koord::bench::Register kSums("fragmentation/8 GPUs, 35 typical pods", [] {
  static const GpuProfile profile = measure().profile(kFree);
  static const auto accepted = measure().accepted("T4");
  koord::bench::keep(measure().amount(20000, profile, accepted));
});

const koord::bench::Register kMove("fragmentation/change one GPU and measure", [] {
  static const GpuProfile profile = measure().profile(kFree);
  static const auto accepted = measure().accepted("T4");
  static GpuProfile after;
  measure().move(profile, 810, 310, after);
  koord::bench::keep(measure().amount(18000, after, accepted));
});

}  // namespace
