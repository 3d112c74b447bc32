// SPDX-License-Identifier: Apache-2.0
// A row as one pod sees it: what it may have, after what is given back to it and kept from it.
#pragma once

#include <array>
#include <vector>

#include "koord/devices_assign.hpp"

namespace koord::devices {

/// Points into the table unless the offer changes what is free; then it has amounts of its own.
class View {
 public:
  View(const DeviceTable& table, std::uint32_t row, const Demand& demand, const Offer& offer);
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  /// Minors that may be given at all.
  [[nodiscard]] MinorMask candidates() const noexcept { return candidates_; }
  /// Candidates on which one instance fits.
  [[nodiscard]] MinorMask fitting() const noexcept { return fitting_; }
  /// Minors of which something is in use by others.
  [[nodiscard]] MinorMask used() const noexcept { return used_; }
  [[nodiscard]] std::span<const Place> places() const noexcept { return places_; }

  /// Weighted score of one device if an instance were placed on it.
  [[nodiscard]] std::int64_t device_score(int minor, const Request& request,
                                          const Scoring& scoring) const;
  /// The same with all candidates taken as one device.
  [[nodiscard]] std::int64_t node_score(const Request& request, const Scoring& scoring) const;

 private:
  void adjust(const DeviceTable& table, std::uint32_t row, const Offer& offer);
  void restrict_to_offer(const Offer& offer);
  void restrict_to_free_pcies(const DeviceTable& table, std::uint32_t row);
  void find_fitting(std::span<const std::int64_t> each);
  void find_used(const DeviceTable& table, std::uint32_t row);

  std::size_t resources_;
  std::size_t width_;
  std::array<const std::int64_t*, kMaxResources> free_{}, total_{};
  std::vector<std::int64_t> adjusted_;  // free amounts that differ from the table's
  std::span<const Place> places_;
  MinorMask candidates_ = 0;
  MinorMask fitting_ = 0;
  MinorMask used_ = 0;
};

/// GPUs by partition; kNone with no minors where the default order is to decide.
Assignment assign_partition(const DeviceTable& table, std::uint32_t row, const Demand& demand,
                            const Offer& offer, const View& view);
/// GPUs by topology; kNone with no minors where the default order is to decide.
Assignment assign_scope(const DeviceTable& table, std::uint32_t row, const Demand& demand,
                        const Offer& offer, const View& view, const Scoring& scoring);

}  // namespace koord::devices
