// SPDX-License-Identifier: Apache-2.0
#include "devices_view.hpp"

#include <algorithm>

namespace koord::devices {
namespace {

std::int64_t weighted(const Scoring& scoring, std::size_t resources, auto total_of, auto used_of) {
  std::int64_t sum = 0;
  std::int64_t weights = 0;
  for (std::size_t r = 0; r < std::min(resources, scoring.weights.size()); ++r) {
    const std::int64_t total = total_of(r);
    if (total == 0 || scoring.weights[r] == 0) continue;
    sum += scoring.weights[r] * usage_score(scoring.strategy, total, used_of(r));
    weights += scoring.weights[r];
  }
  return weights == 0 ? 0 : sum / weights;
}

}  // namespace

View::View(const DeviceTable& table, std::uint32_t row, const Demand& demand, const Offer& offer)
    : resources_(table.resources().size()),
      width_(static_cast<std::size_t>(table.width(row))),
      places_(table.places(row)),
      candidates_(table.present(row)) {
  for (std::size_t r = 0; r < resources_; ++r) {
    free_[r] = table.free(row, r).data();
    total_[r] = table.total(row, r).data();
  }
  if (!offer.returned.empty() || offer.caps) adjust(table, row, offer);
  restrict_to_offer(offer);
  if (demand.whole_pcie) restrict_to_free_pcies(table, row);
  find_fitting(demand.request.each);
  if (demand.grouped) find_used(table, row);
}

void View::adjust(const DeviceTable& table, std::uint32_t row, const Offer& offer) {
  adjusted_.resize(resources_ * width_);
  for (std::size_t r = 0; r < resources_; ++r) {
    std::int64_t* free = adjusted_.data() + r * width_;
    std::copy_n(free_[r], width_, free);
    for (const Holding& holding : offer.returned) {
      const auto minor = static_cast<std::size_t>(holding.minor);
      if (minor >= width_) continue;
      const std::int64_t used = table.used(row, r)[minor] - holding.amounts[r];
      free[minor] = std::max<std::int64_t>(0, total_[r][minor] - std::max<std::int64_t>(0, used));
    }
    free_[r] = free;
  }
  if (!offer.caps) return;
  MinorMask named = 0;
  for (const Holding& cap : *offer.caps) {
    const auto minor = static_cast<std::size_t>(cap.minor);
    if (minor >= width_) continue;
    named |= MinorMask{1} << minor;
    for (std::size_t r = 0; r < resources_; ++r) {
      std::int64_t& free = adjusted_[r * width_ + minor];
      free = std::min(free, cap.amounts[r]);
    }
  }
  candidates_ &= named;
}

void View::restrict_to_offer(const Offer& offer) {
  if (offer.allowed) candidates_ &= *offer.allowed;
  if (!offer.numa_nodes) return;
  for (MinorMask rest = candidates_; rest != 0; rest &= rest - 1) {
    const std::int32_t node = places_[static_cast<std::size_t>(std::countr_zero(rest))].numa_node;
    const bool near =
        node == -1 || (node >= 0 && node < 64 && (*offer.numa_nodes >> node & 1) != 0);
    if (!near) candidates_ &= ~(rest & -rest);
  }
}

// A PCIe root counts as free only if every device on it is, be it a candidate or not.
void View::restrict_to_free_pcies(const DeviceTable& table, std::uint32_t row) {
  MinorMask free_pcies = 0;
  for (const NumaGroup& numa : table.groups(row)) {
    for (const MinorMask pcie : numa.pcies) {
      bool untouched = true;
      for (MinorMask rest = pcie; rest != 0; rest &= rest - 1) {
        const auto minor = static_cast<std::size_t>(std::countr_zero(rest));
        for (std::size_t r = 0; r < resources_; ++r) {
          untouched &= free_[r][minor] == total_[r][minor];
        }
      }
      if (untouched) free_pcies |= pcie;
    }
  }
  candidates_ &= free_pcies;
}

void View::find_fitting(std::span<const std::int64_t> each) {
  fitting_ = candidates_;
  for (std::size_t r = 0; r < each.size(); ++r) {
    if (each[r] == 0) continue;
    MinorMask enough = 0;
    for (std::size_t minor = 0; minor < width_; ++minor) {
      enough |= MinorMask{free_[r][minor] >= each[r]} << minor;
    }
    fitting_ &= enough;
  }
}

void View::find_used(const DeviceTable& table, std::uint32_t row) {
  for (std::size_t minor = 0; minor < width_; ++minor) {
    const MinorMask bit = MinorMask{1} << minor;
    bool used = false;
    for (std::size_t r = 0; r < resources_; ++r) {
      used |= (candidates_ & bit) != 0 ? free_[r][minor] < total_[r][minor]
                                       : table.used(row, r)[minor] > 0;
    }
    if (used) used_ |= bit;
  }
}

std::int64_t View::device_score(int minor, const Request& request, const Scoring& scoring) const {
  if (scoring.strategy == Strategy::kNone) return 0;
  const auto at = static_cast<std::size_t>(minor);
  return weighted(
      scoring, resources_, [&](std::size_t r) { return total_[r][at]; },
      [&](std::size_t r) { return total_[r][at] - free_[r][at] + request.each[r]; });
}

std::int64_t View::node_score(const Request& request, const Scoring& scoring) const {
  if (scoring.strategy == Strategy::kNone) return 0;
  const auto sum = [&](const std::int64_t* amounts) {
    std::int64_t all = 0;
    for (MinorMask rest = candidates_; rest != 0; rest &= rest - 1) {
      all += amounts[std::countr_zero(rest)];
    }
    return all;
  };
  return weighted(
      scoring, resources_, [&](std::size_t r) { return sum(total_[r]); },
      [&](std::size_t r) { return sum(total_[r]) - sum(free_[r]) + request.each[r]; });
}

}  // namespace koord::devices
