// SPDX-License-Identifier: Apache-2.0
#include "koord/devices_assign.hpp"

#include <algorithm>

#include "devices_view.hpp"

namespace koord::devices {
namespace {

struct Ranked {
  std::int32_t turn;
  std::int64_t score;
  int minor;
};

bool earlier(const Ranked& a, const Ranked& b) {
  if (a.turn != b.turn) return a.turn < b.turn;
  return a.score != b.score ? a.score > b.score : a.minor < b.minor;
}

// Gives each device its turn: 0 for preferred minors, then round by round over preferred PCIe
// roots, then all others. `ranked` is ordered by score and minor.
void set_turns(std::vector<Ranked>& ranked, const Offer& offer, const View& view) {
  std::vector<std::int32_t> turns(offer.preferred_pcies.size(), 0);
  for (Ranked& device : ranked) {
    const std::int32_t pcie = view.places()[static_cast<std::size_t>(device.minor)].pcie;
    const auto at = std::ranges::find(offer.preferred_pcies, pcie);
    device.turn = at == offer.preferred_pcies.end()
                      ? std::numeric_limits<std::int32_t>::max()
                      : ++turns[static_cast<std::size_t>(at - offer.preferred_pcies.begin())];
    if ((offer.preferred >> device.minor & 1) != 0) device.turn = 0;
  }
}

Assignment in_order(const Demand& demand, const Offer& offer, const View& view,
                    const Scoring& scoring) {
  std::vector<Ranked> ranked;
  for (MinorMask rest = view.fitting(); rest != 0; rest &= rest - 1) {
    const int minor = std::countr_zero(rest);
    ranked.push_back({0, view.device_score(minor, demand.request, scoring), minor});
  }
  std::ranges::sort(ranked, earlier);
  set_turns(ranked, offer, view);
  std::ranges::sort(ranked, earlier);
  const std::size_t wanted =
      std::max(static_cast<std::size_t>(demand.request.count), offer.preferred_pcies.size());
  MinorMask chosen = 0;
  for (std::size_t i = 0; i < std::min(wanted, ranked.size()); ++i) {
    chosen |= MinorMask{1} << ranked[i].minor;
  }
  return {Refusal::kNone, chosen};
}

Assignment assign_view(const DeviceTable& table, std::uint32_t row, const Demand& demand,
                       const Offer& offer, const View& view, const Scoring& scoring) {
  if (demand.grouped) {
    Assignment found = assign_partition(table, row, demand, offer, view);
    if (found.refusal != Refusal::kNone || found.minors != 0) return found;
    found = assign_scope(table, row, demand, offer, view, scoring);
    if (found.refusal != Refusal::kNone || found.minors != 0) return found;
  }
  if (std::popcount(view.fitting()) < demand.request.count) return {Refusal::kTooFew};
  return in_order(demand, offer, view, scoring);
}

std::uint32_t checked_row(const DeviceTable& table, std::int64_t row) {
  if (row >= 0 && row < static_cast<std::int64_t>(table.rows())) {
    return static_cast<std::uint32_t>(row);
  }
  throw Exception(not_found("row", std::to_string(row), "a row of the table"));
}

// Cheap and never wrong where it says no: no minor has enough of some resource.
bool out_of_question(const DeviceTable& table, std::uint32_t row, const Request& request) {
  for (std::size_t r = 0; r < request.each.size(); ++r) {
    if (table.largest_free(r)[row] < request.each[r]) return true;
  }
  return std::popcount(table.present(row)) < request.count;
}

// Nothing but the number of minors that fit decides, whatever partitions and topology there are.
bool counts_only(const DeviceTable& table, std::uint32_t row, const Demand& demand) {
  if (demand.whole_pcie) return false;
  return !demand.grouped ||
         (demand.scope == Scope::kAny &&
          (demand.shared || (!demand.honour_partition && !table.honours_partitions(row))));
}

// What assign() says where too few minors fit, without going through it.
Refusal too_few(const DeviceTable& table, std::uint32_t row, const Demand& demand) {
  const bool by_topology =
      demand.grouped && !table.groups(row).empty() && (!demand.shared || demand.request.count == 1);
  return by_topology ? Refusal::kGroupsTaken : Refusal::kTooFew;
}

// A column by row, and what is asked for of it.
struct Column {
  const std::int64_t* values;
  std::int64_t amount;
};

// What a demand for one device wants that is by its number alone, on every row; none for others.
std::vector<Column> wanted_of_one(const DeviceTable& table, const Demand& demand) {
  std::vector<Column> wanted;
  const bool plain = !demand.grouped || (demand.scope == Scope::kAny && demand.shared);
  if (demand.request.count != 1 || demand.whole_pcie || !plain) return wanted;
  for (std::size_t r = 0; r < demand.request.each.size(); ++r) {
    if (demand.request.each[r] == 0) continue;
    wanted.push_back({table.largest_free(r).data(), demand.request.each[r]});
  }
  return wanted;
}

Refusal refusal_of(const DeviceTable& table, std::uint32_t row, const Demand& demand) {
  if (!counts_only(table, row, demand)) return assign(table, row, demand, {}, {}).refusal;
  if (out_of_question(table, row, demand.request)) return too_few(table, row, demand);
  if (demand.request.count == 1 && table.has_largest_minor(row)) return Refusal::kNone;
  const int fitting = std::popcount(table.fitting(row, demand.request.each));
  return fitting >= demand.request.count ? Refusal::kNone : too_few(table, row, demand);
}

}  // namespace

Assignment assign(const DeviceTable& table, std::uint32_t row, const Demand& demand,
                  const Offer& offer, const Scoring& scoring) {
  const View view(table, row, demand, offer);
  return assign_view(table, row, demand, offer, view, scoring);
}

void assign_rows(const DeviceTable& table, std::span<const std::int64_t> rows, const Demand& demand,
                 std::span<std::uint8_t> refusals) {
  // One share of a card fits where the largest card has it: of most rows that says all.
  const std::vector<Column> wanted = wanted_of_one(table, demand);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::uint32_t row = checked_row(table, rows[i]);
    bool fits = !wanted.empty() && table.has_largest_minor(row);
    for (const Column& each : wanted) fits = fits && each.values[row] >= each.amount;
    refusals[i] = fits ? 0 : static_cast<std::uint8_t>(refusal_of(table, row, demand));
  }
}

std::int64_t offered_score(const DeviceTable& table, std::uint32_t row, const Demand& demand,
                           const Offer& offer, const Scoring& scoring) {
  return View(table, row, demand, offer).node_score(demand.request, scoring);
}

void score_rows(const DeviceTable& table, std::span<const std::int64_t> rows,
                const Request& request, const Scoring& scoring, std::span<std::int64_t> scores) {
  std::vector<Column> read;
  for (std::size_t r = 0; r < scoring.weights.size(); ++r) {
    if (scoring.weights[r] == 0) continue;
    read.push_back({table.total_sums(r).data(), 0});
    read.push_back({table.free_sums(r).data(), 0});
  }
  std::uint32_t before = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::uint32_t row = checked_row(table, rows[i]);
    // Nodes next to each other are often alike, and what divisions take is most of it.
    bool alike = i > 0;
    for (const Column& each : read) alike = alike && each.values[row] == each.values[before];
    scores[i] = alike ? scores[i - 1] : table.score(row, request, scoring);
    before = row;
  }
}

}  // namespace koord::devices
