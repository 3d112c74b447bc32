// SPDX-License-Identifier: Apache-2.0
#include "koord/cpuset.hpp"

#include <charconv>
#include <optional>

namespace koord {
namespace {

constexpr std::string_view kListField = "cpu list";
constexpr std::string_view kMaskField = "cpu mask";
constexpr std::string_view kListForm = "ids and ranges such as 0-3,8";
constexpr int kMaskWordBits = 32;
constexpr std::size_t kMaskWordDigits = 8;

// The whole text as a non-negative number.
std::optional<int> number(std::string_view text) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < 0) return std::nullopt;
  return value;
}

// Go's number parser, which the other side uses, takes a leading plus.
std::optional<int> wire_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  return number(text);
}

// "N" is the range N-N.
struct Item {
  std::string_view first;
  std::string_view last;
};

std::optional<Item> split(std::string_view text) {
  const auto dash = text.find('-');
  if (dash == std::string_view::npos) return Item{text, text};
  const Item item{text.substr(0, dash), text.substr(dash + 1)};
  if (item.last.find('-') != std::string_view::npos) return std::nullopt;
  return item;
}

// Calls add(item) -> std::optional<Error> for each item between commas until one fails.
template <class Add>
std::optional<Error> for_each_item(std::string_view text, Add add) {
  while (!text.empty()) {
    const auto comma = text.find(',');
    const bool at_end = comma == std::string_view::npos;
    if (auto error = add(text.substr(0, comma))) return error;
    if (at_end) break;
    text.remove_prefix(comma + 1);
    // A comma at the end promises one more item, which is then empty.
    if (text.empty()) return add(text);
  }
  return std::nullopt;
}

std::optional<Error> add_strict(CpuSet& set, std::string_view text) {
  const auto item = split(text);
  if (!item) return invalid(kListField, text, kListForm);
  const auto first = number(item->first);
  const auto last = number(item->last);
  if (!first || !last) return invalid(kListField, text, kListForm);
  if (*last < *first) return invalid(kListField, text, "a range that ascends");
  if (*last > CpuSet::kMaxId) return invalid(kListField, text, "ids of at most 8191");
  const CpuSet added = CpuSet::range(*first, *last);
  if (set.intersects(added)) return invalid(kListField, text, "every id once");
  set |= added;
  return std::nullopt;
}

std::optional<Error> add_wire(CpuSet& set, std::string_view text) {
  const auto item = split(text);
  if (!item) return invalid(kListField, text, kListForm);
  const auto first = wire_number(item->first);
  const auto last = wire_number(item->last);
  if (!first || !last) return invalid(kListField, text, kListForm);
  const bool single = item->first.data() == item->last.data();
  if (single && *last > CpuSet::kMaxId) return invalid(kListField, text, "ids of at most 8191");
  if (!single && *last > CpuSet::kMaxWireRangeEnd) {
    return invalid(kListField, text, "a range that ends at 4096 or below");
  }
  set.insert_range(*first, *last);
  return std::nullopt;
}

std::optional<std::uint32_t> mask_word(std::string_view text) {
  std::uint32_t value = 0;
  const char* end = text.data() + text.size();
  if (text.size() > kMaskWordDigits) return std::nullopt;
  const auto [stop, error] = std::from_chars(text.data(), end, value, 16);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

Result<CpuSet> parse_list(std::string_view text,
                          std::optional<Error> (*add)(CpuSet&, std::string_view)) {
  CpuSet set;
  auto error = for_each_item(text, [&](std::string_view item) { return add(set, item); });
  if (error) return *std::move(error);
  return set;
}

}  // namespace

Result<CpuSet> CpuSet::parse(std::string_view text) { return parse_list(text, add_strict); }

Result<CpuSet> CpuSet::parse_wire(std::string_view text) { return parse_list(text, add_wire); }

Result<CpuSet> CpuSet::parse_mask(std::string_view text) {
  if (text.empty()) return invalid(kMaskField, text, "32-bit hex words such as ff,00000000");
  std::vector<std::uint32_t> highest_first;
  auto error = for_each_item(text, [&](std::string_view item) -> std::optional<Error> {
    const auto word = mask_word(item);
    if (!word) return invalid(kMaskField, item, "32-bit hex words such as ff,00000000");
    highest_first.push_back(*word);
    return std::nullopt;
  });
  if (error) return *std::move(error);
  std::vector<Word> words((highest_first.size() + 1) / 2);
  for (std::size_t i = 0; i < highest_first.size(); ++i) {
    const Word word = highest_first[highest_first.size() - 1 - i];
    words[i / 2] |= word << (i % 2 * kMaskWordBits);
  }
  CpuSet set;
  set.words_ = std::move(words);
  set.trim();
  if (set.last() > kMaxId) return invalid(kMaskField, text, "ids of at most 8191");
  return set;
}

std::string CpuSet::format() const {
  std::string out;
  for (int run = first(); run >= 0;) {
    int end = run;
    int after = next(end);
    for (; after == end + 1; after = next(end)) end = after;
    if (!out.empty()) out += ',';
    out += std::to_string(run);
    if (end > run) out.append(1, '-').append(std::to_string(end));
    run = after;
  }
  return out;
}

std::string CpuSet::format_mask() const {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  const int words = last() < 0 ? 1 : last() / kMaskWordBits + 1;
  for (int i = words - 1; i >= 0; --i) {
    const auto index = static_cast<std::size_t>(i);
    const Word pair = words_.empty() ? 0 : words_[index / 2];
    const auto word = static_cast<std::uint32_t>(pair >> (index % 2 * kMaskWordBits));
    if (!out.empty()) out += ',';
    for (int shift = kMaskWordBits - 4; shift >= 0; shift -= 4) out += kHex[(word >> shift) & 0xf];
  }
  return out;
}

void CpuSet::insert_range(int first, int last) {
  if (last < first) return;
  require_id(first);
  require_id(last);
  const auto low = static_cast<std::size_t>(first) / kWordBits;
  const auto high = static_cast<std::size_t>(last) / kWordBits;
  grow(high + 1);
  for (std::size_t i = low; i <= high; ++i) {
    Word word = ~Word{0};
    if (i == low) word &= ~Word{0} << (first % kWordBits);
    if (i == high) word &= ~Word{0} >> (kWordBits - 1 - last % kWordBits);
    words_[i] |= word;
  }
}

CpuSet CpuSet::from_words(std::span<const Word> words) {
  CpuSet set;
  set.words_.assign(words.begin(), words.end());
  set.trim();
  if (!set.empty()) require_id(set.last());
  return set;
}

void CpuSet::throw_bad_id(int id) {
  throw Exception(invalid("cpu id", std::to_string(id), "0 to 8191"));
}

}  // namespace koord
