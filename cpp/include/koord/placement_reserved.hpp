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
#include <vector>

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

/// What a pod asks of rows on each of which it has one reservation to choose from, or none.
struct ReservedQuestion {
  Columns columns = {};  ///< as pods see them for which nothing is held
  Reserved reserved = {};
  std::span<const std::int64_t> slots = {};  ///< by row; below 0 where there is none
  std::span<const ReservedAmount> amounts = {};
  bool required = false;    ///< a reservation has to do, whatever the row has beside it
  bool skips_node = false;  ///< what a reservation has is on its node, unlooked at
};

/// kNotFound for a resource out of range, kInvalid for fewer slots than rows.
KOORD_API void check_question(const ReservedQuestion& question, std::size_t rows);

/// Of rows from `first` on, as many as `raw`: 0 in `passes` where the pod has no room, with its
/// reservation or without, 1 elsewhere; how full it would make its reservation, 0 where it does not
/// get it. Rows without a reservation pass, and get 0. kNotFound for a slot out of range; for
/// questions that check_question() lets pass.
KOORD_API void reserved_answers(const ReservedQuestion& question, std::size_t first,
                                std::span<std::uint8_t> passes, std::span<std::int64_t> raw);

/// Of blocks of rows how full their reservations may be: what they hold and what of it is used, at
/// least and at most, so that no row has to be asked about whose block could not be the fullest.
class KOORD_API ReservedBounds {
 public:
  static constexpr std::size_t kBlock = 32;  // rows, as those of RowBounds

  /// Reads the reservations of rows again, with all of their blocks; `slots` by row, below 0 where
  /// there is none. Of other numbers of rows or resources than before all rows are to be given:
  /// kInvalid for fewer; kNotFound for a row or slot out of range, and then nothing counts as read.
  void update(const Reserved& reserved, std::span<const std::int64_t> slots, RowSet rows);

  /// Writes by block 0..100, no less than reserved_answers() gives any row there. kInvalid for
  /// another number of resources than update() has read and for fewer places than blocks; for
  /// questions that check_question() lets pass.
  void limits(const ReservedQuestion& question, std::span<std::int64_t> most) const;

  [[nodiscard]] std::size_t rows() const { return rows_; }

 private:
  // A resource in a block: of the reservations there that hold some of it.
  struct Fill {
    std::int64_t least_held = 0;  ///< 0 where there are none
    std::int64_t most_held = 0;
    std::int64_t least_used = 0;
    std::int64_t most_used = 0;
  };

  void read(const Reserved& reserved, std::span<const std::int64_t> slots, RowSet rows);
  void read_block(std::size_t block, const Reserved& reserved, std::span<const std::int64_t> slots);

  std::size_t rows_ = 0;
  std::size_t resources_ = 0;
  std::size_t blocks_ = 0;
  std::vector<Fill> fills_;  // by block and resource
  // By block, how many resources a reservation there holds, at least and at most.
  std::vector<std::int64_t> least_count_, most_count_;
};

}  // namespace koord::placement
