// SPDX-License-Identifier: Apache-2.0
// Cache ways and memory bandwidth as the kernel's resctrl file system takes them: percentages
// become masks and throttle values, tables become schemata lines. Nothing is written here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "koord/error.hpp"
#include "koord/root.hpp"

namespace koord::resctrl {

/// Who made the CPU; it decides what a bandwidth number means. Other vendors count as Intel.
enum class Vendor { kIntel, kAmd };

/// On AMD this many eighths of a GB/s mean no limit.
inline constexpr std::int64_t kAmdUnlimited = 2048;
/// 25 GB/s a cache domain, of which 80 % can be reached, in eighths: measured on EPYC Milan.
inline constexpr std::int64_t kAmdFullScale = 160;

/// What the hardware takes, as info/ tells it. 0 means not known.
struct Limits {
  std::uint32_t cbm_mask = 0;                   ///< all ways, 2^n - 1
  int min_cbm_bits = 1;                         ///< fewest ways of a group
  std::uint32_t shareable_bits = 0;             ///< ways that devices use too
  int num_closids = 0;                          ///< groups, the root group included
  std::int64_t bandwidth_gran = 0;              ///< step of MB values; 0: 10 on Intel, 1 on AMD
  std::int64_t min_bandwidth = 0;               ///< least MB value; 0: 10 on Intel, 1 on AMD
  std::int64_t amd_full_scale = kAmdFullScale;  ///< AMD's value for the whole bandwidth
};

/// Cache ids, ascending, from a list in the form of cpu lists ("0-1", "0,8").
KOORD_API Result<std::vector<std::int32_t>> parse_l3_ids(std::string_view text);

/// A hex mask of at most 32 bits whose bits are all the lowest ones.
KOORD_API Result<std::uint32_t> parse_cbm_mask(std::string_view hex);

struct CacheMask {
  std::uint32_t bits = 0;
  bool widened = false;      ///< the range alone gave fewer ways than the hardware takes
  std::uint32_t shared = 0;  ///< those of the bits that devices use too
};
/// The ways from start to end percent, both rounded up to whole ways. A range that holds fewer than
/// min_cbm_bits ways grows, upwards first: the kernel refuses the mask otherwise.
/// kInvalid unless 0 <= start < end <= 100, or when the hardware has too few ways.
KOORD_API Result<CacheMask> cache_mask(const Limits& limits, std::int64_t start_percent,
                                       std::int64_t end_percent);

struct Bandwidth {
  std::int64_t value = 0;
  bool clamped = false;  ///< raised to the least value the hardware takes
};
/// The MB value of 1 to 100 percent: on Intel the percentage in whole steps, rounded up; on AMD the
/// share of the full scale, rounded down, and kAmdUnlimited for 100.
KOORD_API Result<Bandwidth> bandwidth(Vendor vendor, const Limits& limits, std::int64_t percent);

/// The tables of a schemata file by cache id. A table that is absent is not the same as an empty
/// one.
struct KOORD_API Schemata {
  std::optional<std::map<std::int32_t, std::uint32_t>> l3;
  std::optional<std::map<std::int32_t, std::int64_t>> mb;
  std::map<std::string, std::string> others;  ///< L2, L3CODE, SMBA...: kept as they stand

  /// One line a table. With `ids_expected` every table must have so many ids, with -1 as many as
  /// the first one (L3 before MB); pairs that are not `id=value` are skipped.
  static Result<Schemata> parse(std::string_view text, int ids_expected = -1);
  /// "L3:0=fff;8=fff;\n" and "MB:...\n", ids ascending; absent tables and others are left out.
  [[nodiscard]] std::string format() const;
  /// As many L3 masks as ids, none of them 0.
  [[nodiscard]] bool l3_valid(int ids) const;
  /// At least one MB value, none of them 0.
  [[nodiscard]] bool mb_valid() const;
  /// Whether a group with the tables of `current` already has what these ask for: every table and
  /// id here has the same value there, by id however sparse.
  [[nodiscard]] bool holds_in(const Schemata& current) const;
  friend bool operator==(const Schemata&, const Schemata&) = default;
};

/// What one class asks for; unset values give no line.
struct ClassPolicy {
  std::string name;
  std::optional<std::int64_t> cat_range_start_percent, cat_range_end_percent;
  std::optional<std::int64_t> mba_percent;
};
struct GroupPlan {
  std::string name;
  std::vector<std::string> lines;  ///< without line ends, L3 first, each to be written by itself
  std::vector<std::string> notes;  ///< where the hardware did not take what was asked
};
/// One group a class, in the order given. MB percentages outside 1..100 give no line, as agents of
/// Koordinator do. kInvalid for a bad range, no ids, or more groups than num_closids.
KOORD_API Result<std::vector<GroupPlan>> plan(Vendor vendor, const Limits& limits,
                                              std::span<const std::int32_t> l3_ids,
                                              std::span<const ClassPolicy> classes);

/// A mounted resctrl tree: its limits and the cache ids of the root group.
struct Info {
  Limits limits;
  bool has_bandwidth = false;
  bool delay_linear = true;
  std::vector<std::int32_t> l3_ids;
};
/// Reads info/ and schemata beneath the root. kSystem when L3 control is not there, kInvalid when a
/// file does not hold what the kernel writes.
KOORD_API Result<Info> read_info(const Root& root);

/// mon_data counters: nothing for Unavailable and Error, which the hardware may answer.
KOORD_API Result<std::optional<std::int64_t>> parse_counter(std::string_view text);

}  // namespace koord::resctrl
