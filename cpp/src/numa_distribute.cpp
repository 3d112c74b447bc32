// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <numeric>

#include "numa_internal.hpp"

namespace koord::numa {
namespace {

std::int64_t whole_cpus(std::int64_t milli) { return (milli + kMilliPerCpu - 1) / kMilliPerCpu; }

}  // namespace

std::optional<Error> check_demands(std::span<const Demand> demands, std::size_t columns) {
  for (const Demand& demand : demands) {
    if (demand.column >= columns) {
      return invalid("demand column", std::to_string(demand.column), "an index of a column");
    }
    for (const std::int64_t amount : {demand.amount, demand.scored}) {
      if (amount < 0 || amount > kLargestAmount) {
        return invalid("request", std::to_string(amount), "an amount from 0 to 2^61");
      }
    }
  }
  return std::nullopt;
}

std::optional<Error> check_supply(const CpuSupply& cpus, std::size_t zones) {
  if (cpus.bindable.size() != zones) {
    return invalid("bindable cpus", std::to_string(cpus.bindable.size()), "a count for each zone");
  }
  for (const std::int64_t count : cpus.bindable) {
    if (count < 0 || count > kMostCpus) {
      return invalid("bindable cpus", std::to_string(count), "a number of CPUs");
    }
  }
  if (cpus.needed < 0 || cpus.needed > kMostCpus) {
    return invalid("cpus needed", std::to_string(cpus.needed), "a number of CPUs");
  }
  if (cpus.threads_per_core < 1 || cpus.threads_per_core > kMostCpus) {
    return invalid("threads per core", std::to_string(cpus.threads_per_core), "at least 1");
  }
  return std::nullopt;
}

Spreader::Spreader(std::span<const Column> available, std::span<const Demand> demands,
                   std::size_t zones, const CpuSupply* cpus)
    : zones_(zones), cpus_(cpus) {
  rows_.reserve(demands.size());
  for (const Demand& demand : demands) {
    rows_.push_back(make_row(available[demand.column], demand));
  }
}

Spreader::Row Spreader::make_row(const Column& column, const Demand& demand) const {
  Row row{column.listed == 0, column.kind == Kind::kCpu, demand.amount, column.amount, {}};
  if (row.cpu && cpus_ != nullptr && cpus_->required) {
    for (std::size_t zone = 0; zone < zones_; ++zone) {
      row.free[zone] = std::min(row.free[zone], cpus_->bindable[zone] * kMilliPerCpu);
    }
  }
  row.ascending.resize(zones_);
  std::iota(row.ascending.begin(), row.ascending.end(), std::size_t{0});
  std::stable_sort(row.ascending.begin(), row.ascending.end(),
                   [&](std::size_t a, std::size_t b) { return row.free[a] < row.free[b]; });
  return row;
}

// Bound CPUs move in whole ones, a fraction left over by an odd zone counting as one: the last zone
// may then be asked for more than remains, which shows as a request that is not met exactly.
std::int64_t Spreader::share(const Row& row, std::int64_t remaining, std::int64_t ways) const {
  if (!row.cpu || cpus_ == nullptr) return remaining / ways;
  const std::int64_t cpus = whole_cpus(remaining);
  if (!cpus_->required || !cpus_->full_cores) return cpus / ways * kMilliPerCpu;
  return cpus / cpus_->threads_per_core / ways * cpus_->threads_per_core * kMilliPerCpu;
}

bool Spreader::spread_row(const Row& row, Mask mask, std::span<std::int64_t> taken) const {
  std::int64_t remaining = row.amount;
  std::int64_t ways = width(mask);
  for (const std::size_t zone : row.ascending) {
    if (!contains(mask, zone)) continue;
    taken[zone] = std::min(share(row, remaining, ways), row.free[zone]);
    remaining -= taken[zone];
    --ways;
  }
  return remaining == 0;
}

Distribution Spreader::spread(Mask mask) const {
  Distribution result{std::vector<std::int64_t>(rows_.size() * zones_), {}};
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i].ignored) continue;
    if (!spread_row(rows_[i], mask, std::span(result.taken).subspan(i * zones_, zones_))) {
      result.insufficient.push_back(i);
    }
  }
  return result;
}

bool Spreader::fits(Mask mask) const {
  std::array<std::int64_t, kMaxZones> counts{};
  bool tied = false;  // something was given out, so the CPUs must come from these zones
  for (const Row& row : rows_) {
    if (row.ignored) continue;
    std::array<std::int64_t, kMaxZones> taken;
    std::fill_n(taken.begin(), zones_, 0);
    if (!spread_row(row, mask, taken)) return false;
    tied = tied || row.amount != 0;
    if (!row.cpu || cpus_ == nullptr) continue;
    for (std::size_t zone = 0; zone < zones_; ++zone) {
      counts[zone] = std::min(cpus_->bindable[zone], taken[zone] / kMilliPerCpu);
    }
  }
  return cpus_ == nullptr || can_bind(tied, std::span(counts).first(zones_));
}

// The CPU picker finds n CPUs wherever n are free, so counts alone say whether it will. Only the
// counts it is then asked for matter: exactly the CPUs needed, and whole cores where these are a
// must.
bool Spreader::can_bind(bool tied, std::span<const std::int64_t> counts) const {
  const auto sum = [](std::span<const std::int64_t> of) {
    return std::accumulate(of.begin(), of.end(), std::int64_t{0});
  };
  if (sum(cpus_->bindable) < cpus_->needed) return false;
  if (tied) return sum(counts) == cpus_->needed && accepts(counts);
  // The picker chooses on the whole machine.
  const bool whole = cpus_->needed % cpus_->threads_per_core == 0;
  return (whole || !cpus_->required || !cpus_->full_cores) && accepts({});
}

bool Spreader::accepts(std::span<const std::int64_t> counts) const {
  if (cpus_->required && cpus_->full_cores) {
    for (const std::int64_t count : counts) {
      if (count % cpus_->threads_per_core != 0) return false;
    }
  }
  return !cpus_->accepts || cpus_->accepts(counts);
}

Result<Distribution> distribute(std::span<const Column> available, std::span<const Demand> demands,
                                Mask mask, std::size_t zones, const CpuSupply* cpus) {
  if (auto error = check_zone_count(zones)) return *error;
  if (mask == 0 || (mask & ~all_of(zones)) != 0) {
    return invalid("mask", std::to_string(mask), "a non-empty set of the zones");
  }
  if (auto error = check_columns("available", available, zones, false)) return *error;
  if (auto error = check_demands(demands, available.size())) return *error;
  if (cpus != nullptr) {
    if (auto error = check_supply(*cpus, zones)) return *error;
  }
  return Spreader(available, demands, zones, cpus).spread(mask);
}

}  // namespace koord::numa
