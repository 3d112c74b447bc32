// SPDX-License-Identifier: Apache-2.0
// How crowded rows are, by the topology domains they are in (Kubernetes: PodTopologySpread's
// score).
#pragma once

#include <cstdint>
#include <span>

#include "koord/placement_board.hpp"

namespace koord::placement {

/// One constraint. Columns are by row.
struct SpreadPart {
  std::span<const std::int32_t> label = {};   ///< below 0: the row lacks it, and gets nothing
  std::span<const std::int32_t> domain = {};  ///< an index of counts; empty: the row itself
  std::span<const std::int64_t> counts = {};  ///< pods by domain
  double weight = 0;                          ///< of a pod
  std::int64_t bias = 0;
};

/// Writes the sum of `counts * weight + bias`, rounded half up, for rows that are rated, and -1 for
/// the others. kNotFound for a row or domain out of range.
KOORD_API void spread_scores(std::span<const SpreadPart> parts, std::span<const std::uint8_t> rated,
                             RowSet rows, std::span<std::int64_t> scores);

}  // namespace koord::placement
