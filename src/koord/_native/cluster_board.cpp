// SPDX-License-Identifier: Apache-2.0
// Boards, room checks and room scores: part of the placement module.
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "bindings.hpp"
#include "columns.hpp"
#include "koord/placement_board.hpp"
#include "koord/placement_bounds.hpp"
#include "koord/placement_classes.hpp"
#include "koord/placement_fit.hpp"
#include "koord/placement_load.hpp"
#include "koord/placement_reserved.hpp"
#include "koord/placement_spread.hpp"

namespace py = pybind11;

namespace koord::python {
namespace {

using namespace koord::placement;
using Ints = py::array_t<std::int64_t, py::array::c_style | py::array::forcecast>;
using Bools = py::array_t<bool, py::array::c_style | py::array::forcecast>;

// Rows as Python gives them: a slice without a step, or an array of numbers. The array is kept as
// long as the set is used.
class Rows {
 public:
  Rows(const py::object& rows, std::size_t size) {
    if (PySlice_Check(rows.ptr()) != 0) {
      py::ssize_t start = 0;
      py::ssize_t stop = 0;
      py::ssize_t step = 0;
      if (PySlice_Unpack(rows.ptr(), &start, &stop, &step) < 0) throw py::error_already_set();
      const py::ssize_t count =
          PySlice_AdjustIndices(static_cast<py::ssize_t>(size), &start, &stop, step);
      if (step != 1) throw Exception(invalid("step", std::to_string(step), "1"));
      set_ = {.index = nullptr, .first = start, .count = static_cast<std::size_t>(count)};
    } else {
      const Ints& index = index_.emplace(array_of<Ints>(rows));
      set_ = {.index = index.data(), .first = 0, .count = static_cast<std::size_t>(index.size())};
    }
  }

  [[nodiscard]] RowSet set() const { return set_; }

 private:
  std::optional<Ints> index_;
  RowSet set_;
};

std::span<const std::int64_t> ints(const Ints& values) {
  return {values.data(), static_cast<std::size_t>(values.size())};
}

std::span<const std::uint8_t> bytes(const Bools& mask) {
  return {reinterpret_cast<const std::uint8_t*>(mask.data()),
          static_cast<std::size_t>(mask.size())};
}

// A view that keeps the board alive; a skipped score's raw column is empty.
template <class T>
py::array_t<T> board_view(const py::object& owner, std::span<const T> values) {
  py::array_t<T> array(static_cast<py::ssize_t>(values.size()), values.data(), owner);
  py::detail::array_proxy(array.ptr())->flags &= ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
  return array;
}

Columns columns_of(const Ints& allocatable, const Ints& requested, const Ints& nonzero) {
  const auto rows = [](const Ints& array) { return array.ndim() == 2 ? array.shape(1) : -1; };
  if (rows(allocatable) < 0 || rows(requested) != rows(allocatable) ||
      rows(nonzero) != rows(allocatable) || requested.shape(0) != allocatable.shape(0) ||
      nonzero.shape(0) != 2) {
    throw Exception(invalid("columns", "other shapes", "[resource, row], of equal shapes"));
  }
  return {.allocatable = allocatable.data(),
          .requested = requested.data(),
          .nonzero = nonzero.data(),
          .stride = static_cast<std::size_t>(rows(allocatable)),
          .resources = static_cast<std::size_t>(allocatable.shape(0))};
}

Bools checked_room(const RoomCheck& room, const Ints& allocatable, const Ints& requested,
                   const Ints& nonzero, const py::object& rows) {
  const Columns columns = columns_of(allocatable, requested, nonzero);
  const Rows asked(rows, columns.stride);
  Bools passes(static_cast<py::ssize_t>(asked.set().count));
  room.check(columns, asked.set(),
             {reinterpret_cast<std::uint8_t*>(passes.mutable_data()), asked.set().count});
  return passes;
}

Ints scored_room(const RoomScore& room, const Ints& allocatable, const Ints& requested,
                 const Ints& nonzero, const py::object& rows) {
  const Columns columns = columns_of(allocatable, requested, nonzero);
  const Rows asked(rows, columns.stride);
  Ints scores(static_cast<py::ssize_t>(asked.set().count));
  room.score(columns, asked.set(), {scores.mutable_data(), asked.set().count});
  return scores;
}

std::vector<ScoreRule> rules_of(const std::vector<std::pair<std::int64_t, int>>& scores) {
  std::vector<ScoreRule> rules;
  for (const auto& [weight, normalization] : scores) {
    if (normalization < 0 || normalization > static_cast<int>(Normalization::kSpread)) {
      throw Exception(invalid("normalization", std::to_string(normalization), "0 to 4"));
    }
    rules.push_back({weight, static_cast<Normalization>(normalization)});
  }
  return rules;
}

Board made_board(std::size_t rows, const std::vector<std::pair<std::int64_t, int>>& scores,
                 const std::shared_ptr<Ranks>& ranks) {
  return Board(rows, rules_of(scores), ranks);
}

void add_board(py::module_& m) {
  py::class_<Ranks, std::shared_ptr<Ranks>>(m, "Ranks")
      .def(py::init([](std::size_t rows, const Ints& ranks) { return Ranks(rows, ints(ranks)); }),
           py::arg("rows"), py::arg("ranks"))
      .def_property_readonly("rows", &Ranks::rows);
  py::class_<Board>(m, "Board")
      .def(py::init(&made_board), py::arg("rows"), py::arg("scores"),
           py::arg("ranks") = std::shared_ptr<Ranks>())
      .def(
          "reset",
          [](Board& board, const std::vector<std::pair<std::int64_t, int>>& scores,
             bool keep_closed) { board.reset(rules_of(scores), keep_closed); },
          py::arg("scores"), py::arg("keep_closed") = false)
      .def("set_ranks",
           [](Board& board, const std::shared_ptr<Ranks>& ranks) {
             if (!ranks) throw py::type_error("no ranks");
             board.set_ranks(ranks);
           })
      .def("set_ranks", [](Board& board, const Ints& ranks) { board.set_ranks(ints(ranks)); })
      .def("refuse",
           [](Board& board, unsigned filter, const py::object& rows, const Bools& passes) {
             board.refuse(filter, Rows(rows, board.rows()).set(), bytes(passes));
           })
      .def("clear", &Board::clear)
      .def("rate",
           [](Board& board, std::size_t score, const py::object& rows, const Ints& raw) {
             board.rate(score, Rows(rows, board.rows()).set(), ints(raw));
           })
      .def("skip", &Board::skip)
      .def("best", &Board::best)
      .def("best_of",
           [](const Board& board, const Bools& mask) { return board.best_of(bytes(mask)); })
      .def_property_readonly("rows", &Board::rows)
      .def_property_readonly("bytes", &Board::bytes)
      .def_property_readonly("feasible", &Board::feasible)
      .def_property_readonly("flips", &Board::flips)
      .def_property_readonly("refused",
                             [](const py::object& self) {
                               return board_view(self, self.cast<const Board&>().refused());
                             })
      .def("raw", [](const py::object& self, std::size_t score) {
        return board_view(self, self.cast<const Board&>().raw(score));
      });
}

RoomScore made_score(
    int strategy,
    const std::vector<std::tuple<std::size_t, std::int64_t, std::int64_t, bool>>& counted,
    const std::vector<std::pair<std::int64_t, std::int64_t>>& corners) {
  if (strategy < 0 || strategy > static_cast<int>(Strategy::kBalanced)) {
    throw Exception(invalid("strategy", std::to_string(strategy), "0 to 3"));
  }
  std::vector<Counted> resources;
  for (const auto& [resource, request, weight, nonzero] : counted) {
    resources.push_back({resource, request, weight, nonzero});
  }
  std::vector<Corner> line;
  for (const auto& [used, score] : corners) line.push_back({used, score});
  return RoomScore(static_cast<Strategy>(strategy), std::move(resources), std::move(line));
}

void add_room(py::module_& m) {
  py::class_<RoomCheck>(m, "RoomCheck")
      .def(py::init([](const std::vector<std::pair<std::size_t, std::int64_t>>& asked) {
             std::vector<Asked> amounts;
             for (const auto& [resource, amount] : asked) amounts.push_back({resource, amount});
             return RoomCheck(std::move(amounts));
           }),
           py::arg("asked"))
      .def("asking", [](const RoomCheck& check,
                        const std::vector<std::int64_t>& amounts) { return check.asking(amounts); })
      .def("check", &checked_room);
  py::class_<RoomScore>(m, "RoomScore")
      .def(py::init(&made_score), py::arg("strategy"), py::arg("counted"), py::arg("corners"))
      .def("requesting",
           [](const RoomScore& score, const std::vector<std::int64_t>& requests) {
             return score.requesting(requests);
           })
      .def("score", &scored_room);
  py::class_<Rooms>(m, "Rooms")
      .def(py::init<std::vector<std::pair<unsigned, RoomCheck>>,
                    std::vector<std::pair<std::size_t, RoomScore>>>(),
           py::arg("checks"), py::arg("scores"))
      .def("put",
           [](const Rooms& rooms, Board& board, const py::object& allocatable,
              const py::object& requested, const py::object& nonzero, const py::object& rows) {
             const auto all = array_of<Ints>(allocatable);
             const auto taken = array_of<Ints>(requested);
             const auto counted = array_of<Ints>(nonzero);
             const Columns columns = columns_of(all, taken, counted);
             rooms.put(board, columns, Rows(rows, columns.stride).set());
           })
      .def("__eq__", [](const Rooms& rooms, const Rooms& other) { return rooms == other; })
      .def("__hash__", [](const py::object&) -> py::ssize_t {
        throw py::type_error("checks and scores are no key");
      });
  py::class_<RoomsTemplate>(m, "RoomsTemplate")
      .def(py::init<Rooms, std::vector<std::vector<std::size_t>>,
                    std::vector<std::vector<std::size_t>>>(),
           py::arg("rooms"), py::arg("checks"), py::arg("scores"))
      .def("of", [](const RoomsTemplate& made, const std::vector<std::int64_t>& amounts) {
        return made.of(amounts);
      });
}

void add_classes(py::module_& m) {
  py::class_<RowClasses>(m, "RowClasses")
      .def(py::init<std::size_t>(), py::arg("most"))
      .def("update",
           [](RowClasses& classes, const py::object& allocatable, const py::object& requested,
              const py::object& nonzero, const py::object& rows, const Bools& open,
              const Ints& ranks) {
             const auto all = array_of<Ints>(allocatable);
             const auto taken = array_of<Ints>(requested);
             const auto counted = array_of<Ints>(nonzero);
             const Columns columns = columns_of(all, taken, counted);
             return classes.update(columns, Rows(rows, columns.stride).set(), bytes(open),
                                   ints(ranks));
           })
      .def("clear", &RowClasses::clear)
      .def("best",
           [](RowClasses& classes, const Rooms& rooms, const std::vector<std::int64_t>& weights) {
             return classes.best(rooms, weights);
           })
      .def("__len__", &RowClasses::size);
}

// Resource of the nodes, place in the reservations, amount; whether it is checked, given, shared.
using PythonAmount = std::tuple<std::size_t, std::int64_t, std::int64_t, bool, bool, bool>;

std::vector<ReservedAmount> amounts_of(const std::vector<PythonAmount>& given) {
  std::vector<ReservedAmount> amounts;
  for (const auto& [resource, place, amount, checked, left, shared] : given) {
    amounts.push_back({resource, place, amount, checked, left, shared});
  }
  return amounts;
}

// The nodes' columns without those that scores count.
Columns taken_of(const Ints& allocatable, const Ints& requested) {
  if (allocatable.ndim() != 2 || requested.ndim() != 2 ||
      requested.shape(0) != allocatable.shape(0) || requested.shape(1) != allocatable.shape(1)) {
    throw Exception(invalid("columns", "other shapes", "[resource, row], of equal shapes"));
  }
  return {.allocatable = allocatable.data(),
          .requested = requested.data(),
          .stride = static_cast<std::size_t>(allocatable.shape(1)),
          .resources = static_cast<std::size_t>(allocatable.shape(0))};
}

Reserved reserved_of(const std::vector<Ints>& columns) {
  if (columns.size() != 4) throw Exception(invalid("columns", "another number", "4"));
  for (const Ints& each : columns) {
    if (each.ndim() == 2 && each.shape(0) == columns[0].shape(0) &&
        each.shape(1) == columns[0].shape(1)) {
      continue;
    }
    throw Exception(invalid("columns", "other shapes", "[resource, slot], of equal shapes"));
  }
  return {columns[0].data(),
          columns[1].data(),
          columns[2].data(),
          columns[3].data(),
          static_cast<std::size_t>(columns[0].shape(1)),
          static_cast<std::size_t>(columns[0].shape(0))};
}

// The bounds, the weight, the nodes' columns, those of reservations, slots by row, amounts; whether
// a reservation is required, and its node not looked at.
using PythonReserved = std::tuple<const ReservedBounds*, std::int64_t, Ints, Ints,
                                  std::vector<Ints>, Ints, std::vector<PythonAmount>, bool, bool>;

// Reads what is given, which has to outlive it, as have the amounts.
ReservedAnswers reserved_answers_of(const PythonReserved& given,
                                    std::vector<ReservedAmount>& amounts) {
  const auto& [bounds, weight, allocatable, requested, reserved, slots, asked, required, skips] =
      given;
  amounts = amounts_of(asked);
  return {.bounds = bounds,
          .question = {.columns = taken_of(allocatable, requested),
                       .reserved = reserved_of(reserved),
                       .slots = ints(slots),
                       .amounts = amounts,
                       .required = required,
                       .skips_node = skips},
          .weight = weight};
}

using Words = py::array_t<std::uint64_t, py::array::c_style | py::array::forcecast>;
// A weight, and conditions: each with a weight and the rows of which it holds.
using PythonPreferences = std::pair<std::int64_t, std::vector<std::pair<std::int64_t, Words>>>;

RowBits bits(const Words& words) { return {words.data(), static_cast<std::size_t>(words.size())}; }

Preferences preferences_of(const PythonPreferences& given) {
  Preferences preferences{.weight = given.first};
  for (const auto& [weight, rows] : given.second) {
    preferences.conditions.push_back({.weight = weight, .rows = bits(rows)});
  }
  return preferences;
}

using Doubles = py::array_t<double, py::array::c_style | py::array::forcecast>;

LoadColumns load_columns(const Ints& used, const Ints& bound) {
  if (used.ndim() != 2 || bound.ndim() != 2 || used.shape(0) != bound.shape(0) ||
      used.shape(1) != bound.shape(1)) {
    throw Exception(invalid("columns", "other shapes", "[resource, row], of equal shapes"));
  }
  return {.used = used.data(),
          .bound = bound.data(),
          .stride = static_cast<std::size_t>(used.shape(1)),
          .resources = static_cast<std::size_t>(used.shape(0))};
}

Freshness freshness(const Doubles& until, double now) {
  return {.until = {until.data(), static_cast<std::size_t>(until.size())}, .now = now};
}

// Columns of what is used and of capacities, or limits; amounts; for ratings weights before when
// what is known counts.
using PythonLoadCheck = std::tuple<Ints, Ints, std::vector<std::int64_t>, Doubles, double, bool>;
using PythonLoad = std::tuple<std::int64_t, std::uint64_t, Ints, Ints, std::vector<std::int64_t>,
                              std::vector<std::int64_t>, std::int64_t, Doubles, double>;

// These read what is given, which has to outlive them.
LoadCheck load_check_of(const PythonLoadCheck& given) {
  const auto& [used, limit, amounts, until, now, expired] = given;
  return {load_columns(used, limit), amounts, freshness(until, now), expired};
}

RowLoad row_load_of(const PythonLoad& given) {
  const auto& [weight, key, used, capacity, amounts, weights, dominant, until, now] = given;
  return {.key = key,
          .weight = weight,
          .rating = {
              load_columns(used, capacity), amounts, {weights, dominant}, freshness(until, now)}};
}

void add_bounds(py::module_& m) {
  py::class_<ReservedBounds>(m, "ReservedBounds")
      .def(py::init<>())
      .def("update", [](ReservedBounds& bounds, const std::vector<Ints>& reserved,
                        const Ints& slots, const py::object& rows) {
        bounds.update(reserved_of(reserved), ints(slots),
                      Rows(rows, static_cast<std::size_t>(slots.size())).set());
      });
  py::class_<RowBounds>(m, "RowBounds")
      .def(py::init<bool>(), py::arg("keeps_order") = false)
      .def("update",
           [](RowBounds& bounds, const py::object& allocatable, const py::object& requested,
              const py::object& nonzero, const py::object& rows, const Bools& open,
              const Ints& ranks) {
             const auto all = array_of<Ints>(allocatable);
             const auto taken = array_of<Ints>(requested);
             const auto counted = array_of<Ints>(nonzero);
             const Columns columns = columns_of(all, taken, counted);
             bounds.update(columns, Rows(rows, static_cast<std::size_t>(ranks.size())).set(),
                           bytes(open), ints(ranks));
           })
      .def(
          "best",
          [](RowBounds& bounds, const Rooms& rooms, const std::vector<std::int64_t>& weights,
             const std::vector<Bools>& masks,
             const std::vector<std::tuple<std::int64_t, int, Ints>>& ratings,
             const std::optional<PythonReserved>& reserved, const std::vector<Words>& bit_masks,
             const std::vector<PythonPreferences>& preferences,
             const std::vector<PythonLoadCheck>& load_checks,
             const std::vector<PythonLoad>& loads) {
            RowAnswers answers;
            for (const Bools& mask : masks) answers.masks.push_back(bytes(mask));
            for (const auto& [weight, normalization, raw] : ratings) {
              answers.ratings.push_back({rules_of({{weight, normalization}})[0], ints(raw)});
            }
            for (const Words& mask : bit_masks) answers.bit_masks.push_back(bits(mask));
            for (const PythonPreferences& each : preferences) {
              answers.preferences.push_back(preferences_of(each));
            }
            for (const PythonLoadCheck& each : load_checks) {
              answers.load_checks.push_back(load_check_of(each));
            }
            for (const PythonLoad& each : loads) answers.loads.push_back(row_load_of(each));
            std::vector<ReservedAmount> amounts;
            if (reserved) answers.reserved = reserved_answers_of(*reserved, amounts);
            return bounds.best(rooms, weights, answers);
          },
          py::arg("rooms"), py::arg("weights"), py::arg("masks") = std::vector<Bools>(),
          py::arg("ratings") = std::vector<std::tuple<std::int64_t, int, Ints>>(),
          py::arg("reserved") = std::optional<PythonReserved>(),
          py::arg("bit_masks") = std::vector<Words>(),
          py::arg("preferences") = std::vector<PythonPreferences>(),
          py::arg("load_checks") = std::vector<PythonLoadCheck>(),
          py::arg("loads") = std::vector<PythonLoad>())
      .def_property_readonly("looked_at", &RowBounds::looked_at);
}

using Numbers = py::array_t<std::int32_t, py::array::c_style | py::array::forcecast>;
// The label's numbers, the domains (None: each row is its own), counts by domain, weight, bias.
using PythonPart = std::tuple<Numbers, std::optional<Numbers>, Ints, double, std::int64_t>;

std::span<const std::int32_t> numbers(const Numbers& values) {
  return {values.data(), static_cast<std::size_t>(values.size())};
}

Ints spread(const std::vector<PythonPart>& parts, const Bools& rated, const py::object& rows) {
  std::vector<SpreadPart> read;
  for (const auto& [label, domain, counts, weight, bias] : parts) {
    read.push_back({.label = numbers(label),
                    .domain = domain ? numbers(*domain) : std::span<const std::int32_t>{},
                    .counts = ints(counts),
                    .weight = weight,
                    .bias = bias});
  }
  const Rows asked(rows, static_cast<std::size_t>(rated.size()));
  Ints scores(static_cast<py::ssize_t>(asked.set().count));
  spread_scores(read, bytes(rated), asked.set(), {scores.mutable_data(), asked.set().count});
  return scores;
}

Ints score_load(const Ints& used, const Ints& capacity, const std::vector<std::int64_t>& amounts,
                const std::vector<std::int64_t>& weights, std::int64_t dominant,
                const Doubles& until, double now, const py::object& rows) {
  const LoadColumns columns = load_columns(used, capacity);
  const Rows asked(rows, columns.stride);
  Ints scores(static_cast<py::ssize_t>(asked.set().count));
  load_scores({columns, amounts, {weights, dominant}, freshness(until, now)}, asked.set(),
              {scores.mutable_data(), asked.set().count});
  return scores;
}

Bools check_load(const Ints& used, const Ints& limit, const std::vector<std::int64_t>& amounts,
                 const Doubles& until, double now, bool expired, const py::object& rows) {
  const LoadColumns columns = load_columns(used, limit);
  const Rows asked(rows, columns.stride);
  Bools within(static_cast<py::ssize_t>(asked.set().count));
  load_within({columns, amounts, freshness(until, now), expired}, asked.set(),
              {reinterpret_cast<std::uint8_t*>(within.mutable_data()), asked.set().count});
  return within;
}

// A column that is written to, so never a converted copy.
Ints writable(const py::object& given) {
  if (!Ints::check_(given)) throw py::type_error("a column is no array of int64, row by row");
  return py::reinterpret_borrow<Ints>(given);
}

void count_pod(const py::object& columns, const py::object& scored, std::size_t row,
               const py::object& resources_of, const py::object& amounts_of, std::int64_t cpu,
               std::int64_t memory, std::int64_t times) {
  Ints requested = writable(columns);
  Ints nonzero = writable(scored);
  const auto index = array_of<Ints>(resources_of);
  const auto amounts = array_of<Ints>(amounts_of);
  if (requested.ndim() != 2 || nonzero.ndim() != 2 || nonzero.shape(0) < 2 ||
      nonzero.shape(1) != requested.shape(1) || index.size() != amounts.size()) {
    throw Exception(invalid("columns", "other shapes", "[resource, row], of equal shapes"));
  }
  const auto rows = static_cast<std::size_t>(requested.shape(1));
  const auto resources = static_cast<std::size_t>(requested.shape(0));
  if (row >= rows) {
    throw Exception(not_found("row", std::to_string(row), "a row of the columns"));
  }
  std::int64_t* column = requested.mutable_data();
  for (py::ssize_t i = 0; i < index.size(); ++i) {
    const auto resource = static_cast<std::size_t>(index.data()[i]);
    if (resource >= resources) {
      throw Exception(not_found("resource", std::to_string(resource), "a resource of the columns"));
    }
    column[resource * rows + row] += times * amounts.data()[i];
  }
  nonzero.mutable_data()[row] += times * cpu;
  nonzero.mutable_data()[rows + row] += times * memory;
}

py::array_t<std::uint8_t> fit_reserved(const Ints& allocatable, const Ints& requested,
                                       const std::vector<Ints>& reserved, const Ints& rows,
                                       const Ints& slots,
                                       const std::vector<PythonAmount>& amounts) {
  const Columns columns = taken_of(allocatable, requested);
  std::vector<std::uint8_t> fit(static_cast<std::size_t>(rows.size()));
  reserved_fit(columns, reserved_of(reserved), ints(rows), ints(slots), amounts_of(amounts), fit);
  return moved_array(std::move(fit));
}

Ints score_reserved(const std::vector<Ints>& reserved, const Ints& slots,
                    const std::vector<PythonAmount>& amounts) {
  Ints scores(slots.size());
  reserved_scores(reserved_of(reserved), ints(slots), amounts_of(amounts),
                  {scores.mutable_data(), static_cast<std::size_t>(scores.size())});
  return scores;
}

// Entries `row << 8 | aspects` of a list, from a place on: the rows that are in it, ascending, each
// with all its aspects; the aspects of any of them, and those of each.
py::tuple changed_rows(const py::list& journal, std::size_t start) {
  std::vector<std::int64_t> entries;
  entries.reserve(journal.size() - std::min(start, journal.size()));
  for (std::size_t i = start; i < journal.size(); ++i) {
    entries.push_back(
        PyLong_AsLongLong(PyList_GET_ITEM(journal.ptr(), static_cast<py::ssize_t>(i))));
  }
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  std::ranges::sort(entries);
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> aspects;
  std::int64_t any = 0;
  for (const std::int64_t entry : entries) {
    const std::int64_t row = entry >> 8;
    const std::int64_t its = entry & 255;
    any |= its;
    if (!rows.empty() && rows.back() == row) {
      aspects.back() |= its;
    } else {
      rows.push_back(row);
      aspects.push_back(its);
    }
  }
  std::int64_t all = 255;
  for (const std::int64_t its : aspects) all &= its;
  return py::make_tuple(moved_array(std::move(rows)), moved_array(std::move(aspects)), any, all);
}

}  // namespace

void register_board(py::module_& m) {
  add_board(m);
  add_room(m);
  add_classes(m);
  add_bounds(m);
  m.def("spread_scores", &spread);
  m.def("load_scores", &score_load);
  m.def("load_within", &check_load);
  m.def("count_pod", &count_pod);
  m.def("reserved_fit", &fit_reserved);
  m.def("reserved_scores", &score_reserved);
  m.def("changed_rows", &changed_rows);
}

}  // namespace koord::python
