// SPDX-License-Identifier: Apache-2.0
// Reservations beside the nodes that they are on: whether pods fit with and without them, and how
// full they would be. Columns belong to the caller.
//
//   const Reserved reserved{held, used, remaining, limit, 64, 3};
//   reserved_fit(columns, reserved, rows, slots, {{.resource = 0, .place = 1, .amount = 500}},
//   fit);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "koord/error.hpp"
#include "koord/placement_fit.hpp"

namespace koord::placement {

/// Columns of reservations: resource r of slot s stands at r * stride + s.
struct Reserved {
  const std::int64_t* held = nullptr;
  const std::int64_t* used = nullptr;
  const std::int64_t* remaining = nullptr;  ///< what pods to come may use of it
  const std::int64_t* limit = nullptr;      ///< the most that one pod may use of it
  std::size_t stride = 0;                   ///< how many slots
  std::size_t resources = 0;
};

/// What a pod asks of a resource, and where that stands in both tables.
struct ReservedAmount {
  std::size_t resource = 0;  ///< of the nodes
  std::int64_t place = -1;   ///< of the reservations; -1 where none holds any
  std::int64_t amount = 0;
  bool checked = true;  ///< it has to fit
  bool given = true;    ///< what a reservation has left of it is there on its node
  bool shared = true;   ///< a reservation that holds some serves the pod
};

/// Bits by place asked about.
enum ReservedFit : std::uint8_t {
  kAlone = 1,   ///< the node has room without the reservation
  kBeside = 2,  ///< it has room with what the reservation has left
  kWithin = 4,  ///< no limit of the reservation is passed
  kShares = 8,  ///< the reservation holds some of what is asked for
};

/// Writes bits of ReservedFit for each pair of a row and a slot. kNotFound for a row, slot or
/// resource out of range, kInvalid where there are not as many rows as slots.
KOORD_API void reserved_fit(const Columns& columns, const Reserved& reserved,
                            std::span<const std::int64_t> rows, std::span<const std::int64_t> slots,
                            std::span<const ReservedAmount> amounts, std::span<std::uint8_t> fit);

/// Writes 0..100 a slot: the mean, truncated, over what it holds of the share in percent that would
/// be used with the amounts; a resource that they overfill counts 0. Errors as above.
KOORD_API void reserved_scores(const Reserved& reserved, std::span<const std::int64_t> slots,
                               std::span<const ReservedAmount> amounts,
                               std::span<std::int64_t> scores);

}  // namespace koord::placement
