// SPDX-License-Identifier: Apache-2.0
// Rows by their load: what is used there beside what they have, and beside the most that may be
// used (Koordinator: LoadAwareScheduling's score and filter).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "koord/error.hpp"
#include "koord/placement_board.hpp"

namespace koord::placement {

/// ``[resource, row]``, 0 or more; what is used up to 2^62, capacities up to 2^53.
struct LoadColumns {
  const std::int64_t* used = nullptr;
  const std::int64_t* bound = nullptr;  ///< capacities, or the most that may be used
  std::size_t stride = 0;               ///< rows of a column
  std::size_t resources = 0;
};

/// By row, until when what is known of it counts.
struct Freshness {
  std::span<const double> until = {};
  double now = 0;
};

/// How much each resource counts, and how much the one of which the least is left; 0 or more.
struct LoadWeights {
  std::span<const std::int64_t> by_resource = {};
  std::int64_t dominant = 0;
};

/// What load_scores() and load_within() are asked about a pod.
struct LoadRating {
  LoadColumns columns = {};
  std::span<const std::int64_t> amounts = {};
  LoadWeights weights = {};
  Freshness freshness = {};
};
struct LoadCheck {
  LoadColumns columns = {};
  std::span<const std::int64_t> amounts = {};
  Freshness freshness = {};
  bool expired = false;
};

/// Writes the weighted mean, 0 to 100, of the percentages that stay unused once `amounts`, 0 to
/// 2^53, come on top, each of them and the mean truncated; 0 for rows of which nothing counts any
/// more. kInvalid for other numbers of amounts or weights than there are resources, and for weights
/// below 0; kNotFound for a row out of range.
KOORD_API void load_scores(const LoadRating& rating, RowSet rows, std::span<std::int64_t> scores);

/// Writes 1 where no resource passes its bound once `amounts` come on top, 0 elsewhere, and
/// `expired` for rows of which nothing counts any more. Errors as above.
KOORD_API void load_within(const LoadCheck& check, RowSet rows, std::span<std::uint8_t> within);

}  // namespace koord::placement
