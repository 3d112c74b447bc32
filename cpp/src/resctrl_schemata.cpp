// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "koord/resctrl.hpp"
#include "text.hpp"

namespace koord::resctrl {
namespace {

// Pairs of another form are skipped, as the kernel adds some over time; a bad value is an error.
template <class Value>
Result<std::map<std::int32_t, Value>> parse_table(std::string_view name, std::string_view pairs,
                                                  int base) {
  std::map<std::int32_t, Value> table;
  for (const auto pair : text::split(pairs, ';')) {
    const auto sides = text::split(pair, '=');
    if (sides.size() != 2) continue;
    const auto id = text::integer<std::int32_t>(text::trim(sides[0]));
    if (!id) continue;
    const auto value = text::integer<Value>(text::trim(sides[1]), base);
    if (!value || *value < 0) {
      return invalid(std::string("schemata ") + std::string(name), pair,
                     base == 16 ? "id=hex mask" : "id=number");
    }
    table[*id] = *value;
  }
  return table;
}

std::optional<Error> check_count(std::string_view name, std::size_t got, int& expected) {
  if (expected < 0) expected = static_cast<int>(got);
  if (got == static_cast<std::size_t>(expected)) return std::nullopt;
  return invalid("schemata " + std::string(name), std::to_string(got) + " ids",
                 std::to_string(expected) + " ids");
}

template <class Table>
void append_line(std::string& text, std::string_view name, const Table& table, int base) {
  std::array<char, 24> digits{};
  text.append(name).append(":");
  for (const auto& [id, value] : table) {
    text.append(std::to_string(id)).append("=");
    text.append(digits.data(), std::to_chars(digits.data(), digits.end(), value, base).ptr);
    text.append(";");
  }
  text.append("\n");
}

template <class Table>
bool is_within(const std::optional<Table>& wanted, const std::optional<Table>& current) {
  if (!wanted) return true;
  if (!current) return false;
  return std::all_of(wanted->begin(), wanted->end(), [&](const auto& entry) {
    const auto found = current->find(entry.first);
    return found != current->end() && found->second == entry.second;
  });
}

template <class Table>
bool all_set(const Table& table) {
  return std::all_of(table.begin(), table.end(),
                     [](const auto& entry) { return entry.second > 0; });
}

}  // namespace

Result<Schemata> Schemata::parse(std::string_view text, int ids_expected) {
  Schemata schemata;
  while (!text.empty()) {
    const auto line = text::trim(text::take_until(text, '\n'));
    if (line.empty()) continue;
    const auto sides = text::split(line, ':');
    if (sides.size() != 2) return invalid("schemata", line, "NAME:id=value;id=value");
    const auto name = text::trim(sides[0]);
    if (name == "L3") {
      auto table = parse_table<std::uint32_t>(name, sides[1], 16);
      if (!table) return table.error();
      schemata.l3 = std::move(table).value();
    } else if (name == "MB") {
      auto table = parse_table<std::int64_t>(name, sides[1], 10);
      if (!table) return table.error();
      schemata.mb = std::move(table).value();
    } else {
      schemata.others.insert_or_assign(std::string(name), std::string(text::trim(sides[1])));
    }
  }
  if (schemata.l3) {
    if (auto error = check_count("L3", schemata.l3->size(), ids_expected)) return *std::move(error);
  }
  if (schemata.mb) {
    if (auto error = check_count("MB", schemata.mb->size(), ids_expected)) return *std::move(error);
  }
  return schemata;
}

std::string Schemata::format() const {
  std::string text;
  if (l3) append_line(text, "L3", *l3, 16);
  if (mb) append_line(text, "MB", *mb, 10);
  return text;
}

bool Schemata::l3_valid(int ids) const {
  return ids > 0 && l3 && l3->size() == static_cast<std::size_t>(ids) && all_set(*l3);
}

bool Schemata::mb_valid() const { return mb && !mb->empty() && all_set(*mb); }

bool Schemata::holds_in(const Schemata& current) const {
  return is_within(l3, current.l3) && is_within(mb, current.mb);
}

}  // namespace koord::resctrl
