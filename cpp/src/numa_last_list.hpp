// SPDX-License-Identifier: Apache-2.0
// The last of the lists that are merged, where nearly all combinations end.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "numa_run.hpp"

namespace koord::numa {

/// Intersects each prefix with all hints of the list at once: the hints are bits of words, one
/// plane of words a zone, and how many zones of a prefix each hint has is counted in binary over
/// the planes.
class LastList {
 public:
  /// `hints` must outlive the object; `all` are the zones of the machine, its lowest bits.
  LastList(std::span<const Hint> hints, Mask all);

  /// The combinations of each prefix in the class of the fewest zones, which this finds: at most
  /// all zones.
  std::vector<Bounds> bounds(std::span<const Mask> prefixes);
  /// Zones of that class.
  [[nodiscard]] int size() const noexcept { return size_; }
  /// False if `later` replaces every combination of the class behind the prefix, `added` being what
  /// the prefix adds to their scores. True says nothing.
  [[nodiscard]] bool may_stay(Mask prefix, std::int64_t added, const Bounds& later) const;
  /// The combinations of the class behind one prefix, looked at one by one.
  [[nodiscard]] Run run(Mask prefix);

 private:
  struct Exact {
    Mask mask;
    std::int64_t score;
  };
  struct Narrowest {
    int size;  // 0: no hint shares up to size_ zones with the prefix
    std::uint64_t hints;
  };
  /// The hints of one zone each: mostly they alone tell the bounds of a class of one zone.
  struct Singles {
    Mask zones = 0;
    std::array<std::int64_t, kMaxZones> most{};  // the highest score, by zone

    /// False if wider hints have to be looked at.
    bool bound(Mask prefix, Bounds& bounds) const;
  };

  [[nodiscard]] Singles find_singles() const;
  [[nodiscard]] const std::uint64_t* planes(std::size_t word) const {
    return &planes_[word * zones_];
  }
  void choose_size(int size);
  [[nodiscard]] Narrowest narrowest(std::size_t word, Mask prefix) const;
  bool collect(Mask prefix);
  [[nodiscard]] bool any_has(Mask zones) const;
  bool leave_out(std::size_t zone);
  [[nodiscard]] Mask lowest(Mask prefix);
  [[nodiscard]] std::int64_t highest() const;

  std::span<const Hint> hints_;
  std::size_t zones_;
  std::size_t words_;
  int size_ = 0;
  std::vector<std::uint64_t> planes_;  // by word and zone: the hints that have the zone
  std::vector<std::uint64_t> exact_;   // by word: the hints of `size_` zones, which add their score
  std::vector<Exact> ascending_;       // the same hints, by mask
  std::vector<std::uint64_t> class_;   // by word: the hints in the class, for one prefix
};

}  // namespace koord::numa
