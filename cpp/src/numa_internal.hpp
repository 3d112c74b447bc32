// SPDX-License-Identifier: Apache-2.0
// What the NUMA sources share and no caller needs.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "koord/numa.hpp"

namespace koord::numa {

// Sums over zones and products with 100 can pass 64 bits; the results never do.
__extension__ typedef __int128 Wide;

inline constexpr std::int64_t kMilliPerCpu = 1000;
// Far enough below 2^63 for the sums and differences of a few amounts to fit.
inline constexpr std::int64_t kLargestAmount = std::int64_t{1} << 61;
inline constexpr std::int64_t kMostCpus = std::int64_t{1} << 31;

inline int width(Mask mask) noexcept { return std::popcount(mask); }
inline bool contains(Mask mask, std::size_t position) noexcept { return (mask >> position) & 1; }
inline Mask all_of(std::size_t zones) noexcept {
  return zones >= kMaxZones ? ~Mask{0} : (Mask{1} << zones) - 1;
}

/// The first thing wrong with some columns, if anything. `signed_amounts` allows negative ones.
std::optional<Error> check_columns(std::string_view field, std::span<const Column> columns,
                                   std::size_t zones, bool signed_amounts);
std::optional<Error> check_zone_count(std::size_t zones);
std::optional<Error> check_demands(std::span<const Demand> demands, std::size_t columns);
std::optional<Error> check_supply(const CpuSupply& cpus, std::size_t zones);

std::optional<Error> check_scorer(const Scorer& scorer, std::size_t columns);

/// A ScoreTerm of sums over zones.
struct WideTerm {
  Kind kind = Kind::kNative;
  Wide requested = 0;
  Wide allocatable = 0;
  Wide pod = 0;
};
/// score() on checked input.
std::int64_t weighted_score(const Scorer& scorer, std::span<const WideTerm> terms);

/// Distribution with everything that does not depend on the mask done once.
class Spreader {
 public:
  /// The arguments are checked already and must outlive the object.
  Spreader(std::span<const Column> available, std::span<const Demand> demands, std::size_t zones,
           const CpuSupply* cpus);

  [[nodiscard]] Distribution spread(Mask mask) const;
  /// Whether a real allocation on the mask would succeed, bound CPUs included.
  [[nodiscard]] bool fits(Mask mask) const;

 private:
  struct Row {
    bool ignored = false;  // no zone lists the resource
    bool cpu = false;
    std::int64_t amount = 0;
    std::vector<std::int64_t> free;      // by position, capped by what can be bound
    std::vector<std::size_t> ascending;  // positions by (free, position)
  };

  Row make_row(const Column& column, const Demand& demand) const;
  /// Fills `taken` (by position) and says whether the amount was met exactly.
  bool spread_row(const Row& row, Mask mask, std::span<std::int64_t> taken) const;
  [[nodiscard]] std::int64_t share(const Row& row, std::int64_t remaining, std::int64_t ways) const;
  [[nodiscard]] bool can_bind(bool tied, std::span<const std::int64_t> counts) const;
  [[nodiscard]] bool accepts(std::span<const std::int64_t> counts) const;

  std::vector<Row> rows_;
  std::size_t zones_;
  const CpuSupply* cpus_;
};

}  // namespace koord::numa
