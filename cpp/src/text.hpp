// SPDX-License-Identifier: Apache-2.0
// Cutting kernel files into lines and fields. Nothing is copied: every view points into the text.
#pragma once

#include <algorithm>
#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>
#include <vector>

namespace koord::text {

inline constexpr std::string_view kWhite = " \t\r\v\f\n";

inline std::string_view trim(std::string_view text, std::string_view what = kWhite) {
  const auto first = text.find_first_not_of(what);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(what) - first + 1);
}

/// Cuts off and returns what stands before the next `separator`; `rest` keeps what follows.
inline std::string_view take_until(std::string_view& rest, char separator) {
  const auto at = rest.find(separator);
  const std::string_view piece = rest.substr(0, at);
  rest.remove_prefix(at == std::string_view::npos ? rest.size() : at + 1);
  return piece;
}

/// Whether the character is in kWhite. Two comparisons, where a search of kWhite is a call a byte.
inline bool is_white(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/// The next field between blanks, empty at the end.
inline std::string_view take_field(std::string_view& rest) {
  const auto first = std::find_if_not(rest.begin(), rest.end(), is_white);
  const auto end = std::find_if(first, rest.end(), is_white);
  const std::string_view field(first, end);
  rest = {end, rest.end()};
  return field;
}

/// The pieces between separators; one empty piece for an empty text.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (;;) {
    const auto at = text.find(separator);
    pieces.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return pieces;
    text.remove_prefix(at + 1);
  }
}

inline std::vector<std::string_view> fields(std::string_view text) {
  std::vector<std::string_view> found;
  for (auto field = take_field(text); !field.empty(); field = take_field(text)) {
    found.push_back(field);
  }
  return found;
}

/// The whole text as a number that fits, else nothing. A leading plus is taken, as Go's parser
/// does.
template <std::integral Integer>
std::optional<Integer> integer(std::string_view text, int base = 10) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  Integer value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace koord::text
