// SPDX-License-Identifier: Apache-2.0
#include "placement_mix.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace koord::placement {
namespace {

// A new estimate after half as many pods again: soon at the start, when each pod tells much. Later
// after a fixed number, because every estimate drops all cached ratings.
constexpr std::int64_t kMostUntilDue = 1000;
// Counts are halved here, so the estimate follows a mix that changes.
constexpr std::int64_t kMemory = 16384;
// A size is common if so many in a hundred GPU pods have it. Rare sizes cannot be relied on to fill
// what another pod leaves; between the two limits they count half.
constexpr std::array<std::int64_t, 2> kCommonPercent = {1, 3};
// Of the demand that names models, so much is taken to be for models nobody named yet: evenly over
// all of them, so that a model is not given away before the first pod that needs it.
constexpr double kUnseen = 0.1;

using Fill = std::array<std::int64_t, kGpuMilli + 1>;

// The most milli of each capacity that any number of pods of these sizes fill.
Fill best_fill(const std::vector<std::int64_t>& sizes) {
  Fill fill{};
  for (std::size_t capacity = 1; capacity < fill.size(); ++capacity) {
    fill[capacity] = fill[capacity - 1];
    for (const std::int64_t size : sizes) {
      const auto rest = static_cast<std::int64_t>(capacity) - size;
      if (rest < 0) break;  // sizes ascend
      fill[capacity] = std::max(fill[capacity], size + fill[static_cast<std::size_t>(rest)]);
    }
  }
  return fill;
}

}  // namespace

void ArrivalMix::arrived(const NodeTable& table, ShapeId shape) {
  counts_.resize(table.shapes(), 0);
  ++counts_[shape];
  ++total_;
  if (--until_due_ > 0) return;
  if (total_ >= kMemory) forget_half();
  estimate(table);
  until_due_ = std::clamp<std::int64_t>(total_ / 2, 1, kMostUntilDue);
  ++epoch_;
}

void ArrivalMix::forget_half() {
  for (std::int64_t& count : counts_) count /= 2;
  total_ = std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0});
}

void ArrivalMix::estimate(const NodeTable& table) {
  estimate_leftovers(table);
  estimate_proportions(table);
  estimate_scarcity(table);
}

void ArrivalMix::estimate_leftovers(const NodeTable& table) {
  std::map<std::int64_t, std::int64_t> pods_of;  // by size, ascending
  std::int64_t pods = 0;
  for (ShapeId id = 0; id < counts_.size(); ++id) {
    if (table.shape(id).gpu_each() == 0) continue;
    pods_of[table.shape(id).gpu_each()] += counts_[id];
    pods += counts_[id];
  }
  std::array<Fill, kCommonPercent.size()> fills;
  for (std::size_t i = 0; i < fills.size(); ++i) {
    std::vector<std::int64_t> common;
    for (const auto& [size, count] : pods_of) {
      if (count > 0 && count * 100 >= pods * kCommonPercent[i]) common.push_back(size);
    }
    fills[i] = best_fill(common);
  }
  for (std::size_t free = 0; free < leftover_.size(); ++free) {
    leftover_[free] = static_cast<std::int64_t>(free) - (fills[0][free] + fills[1][free]) / 2;
  }
}

void ArrivalMix::estimate_proportions(const NodeTable& table) {
  // In double: a sum of large amounts must not overflow, and a proportion needs no more digits.
  std::vector<double> asked(table.resources().size(), 0);
  gpu_milli_ = 0;
  for (ShapeId id = 0; id < counts_.size(); ++id) {
    const Shape& shape = table.shape(id);
    if (shape.gpu_each() == 0) continue;
    const auto count = static_cast<double>(counts_[id]);
    gpu_milli_ += count * static_cast<double>(shape.gpu_total());
    for (std::size_t r = 0; r < asked.size(); ++r) {
      asked[r] += count * static_cast<double>(shape.request[r]);
    }
  }
  gpu_per_unit_.assign(asked.size(), 0);
  for (std::size_t r = 0; r < asked.size(); ++r) {
    if (asked[r] > 0) gpu_per_unit_[r] = gpu_milli_ / asked[r];
  }
}

void ArrivalMix::estimate_scarcity(const NodeTable& table) {
  const std::vector<std::string>& models = table.model_names();
  std::vector<double> free(models.size(), 0);
  double all_free = 0;
  for (Row row = 0; row < table.rows(); ++row) {
    const auto milli = static_cast<double>(table.gpus().free_sums()[row]);
    free[table.model(row)] += milli;
    all_free += milli;
  }
  scarcity_.assign(models.size(), 0);
  double choosy = 0;  // share of all demand that names models
  for (ShapeId id = 0; id < counts_.size(); ++id) {
    const Shape& shape = table.shape(id);
    if (shape.models.empty() || shape.gpu_each() == 0 || counts_[id] == 0) continue;
    const double demand = static_cast<double>(counts_[id]) * static_cast<double>(shape.gpu_total());
    choosy += demand / gpu_milli_;
    add_pressure(shape.models, models, demand / gpu_milli_, free, all_free);
  }
  const auto left =
      static_cast<double>(std::ranges::count_if(free, [](double f) { return f > 0; }));
  for (const std::string& model : models) {
    add_pressure({model}, models, kUnseen * choosy / left, free, all_free);
  }
}

// `share` of all demand presses on the models it accepts, in proportion to what they have free.
void ArrivalMix::add_pressure(const std::vector<std::string>& accepted,
                              const std::vector<std::string>& models, double share,
                              const std::vector<double>& free, double all_free) {
  const auto accepts = [&](std::size_t model) {
    return std::ranges::find(accepted, models[model]) != accepted.end();
  };
  double accepted_free = 0;
  for (std::size_t model = 0; model < models.size(); ++model) {
    if (accepts(model)) accepted_free += free[model];
  }
  if (accepted_free == 0) return;  // there is nothing to keep
  const double pressure = share * (all_free / accepted_free);
  for (std::size_t model = 0; model < models.size(); ++model) {
    if (accepts(model)) scarcity_[model] += pressure;
  }
}

}  // namespace koord::placement
