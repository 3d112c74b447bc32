// SPDX-License-Identifier: Apache-2.0
#include "koord/splitter.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "json_skip.hpp"

namespace koord {
namespace {

// The names that an object has so far.
class Names {
 public:
  // False where there is no room, or it is there already.
  bool add(std::string_view name) {
    const auto end = names_.begin() + static_cast<std::ptrdiff_t>(count_);
    if (count_ == names_.size() || std::find(names_.begin(), end, name) != end) return false;
    names_[count_++] = name;
    return true;
  }

 private:
  std::array<std::string_view, Splitter::kMaxMembers> names_;
  std::size_t count_ = 0;
};

// Reads a text that has no space but within its values.
class Reader {
 public:
  explicit Reader(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  [[nodiscard]] bool take(char wanted) {
    if (at_ == end_ || *at_ != wanted) return false;
    ++at_;
    return true;
  }

  // A name in ASCII without escapes, and the colon behind it: other spellings may say the same.
  [[nodiscard]] bool take_name(std::string_view& name) {
    if (!take('"')) return false;
    bool escaped = false;
    const char* quote = string_end(at_, end_, escaped);
    if (quote == nullptr || escaped) return false;
    name = std::string_view(at_, static_cast<std::size_t>(quote - at_));
    at_ = quote + 1;
    return take(':') && std::all_of(name.begin(), name.end(), [](char each) {
             return static_cast<signed char>(each) >= ' ';
           });
  }

  [[nodiscard]] bool take_value(std::string_view& value) {
    const char* last = skip_value(at_, end_);
    if (last == nullptr) return false;
    value = std::string_view(at_, static_cast<std::size_t>(last - at_));
    at_ = last;
    return true;
  }

  [[nodiscard]] const char* at() const { return at_; }
  [[nodiscard]] bool is_at_end() const { return at_ == end_; }

 private:
  const char* at_;
  const char* end_;
};

}  // namespace

Splitter::Splitter(std::vector<std::string> parts, std::vector<std::string> noted)
    : parts_(std::move(parts)), noted_(std::move(noted)) {
  if (noted_.size() > kMaxNoted) {
    throw Exception(invalid("noted", std::to_string(noted_.size()), "64 names or less"));
  }
}

bool Splitter::split(std::string_view text, Object& object) const {
  object.frame.clear();
  object.parts.clear();
  object.noted = 0;
  Reader reader(text);
  Names names;
  const char* written = text.data();
  if (!reader.take('{')) return false;
  do {
    std::string_view name;
    std::string_view value;
    if (!reader.take_name(name) || !names.add(name) || !reader.take_value(value)) return false;
    const auto noted = std::find(noted_.begin(), noted_.end(), name);
    if (noted != noted_.end()) object.noted |= std::uint64_t{1} << (noted - noted_.begin());
    const auto part = std::find(parts_.begin(), parts_.end(), name);
    if (part == parts_.end()) continue;
    object.frame.append(written, value.data());
    object.parts.push_back(
        {static_cast<std::uint32_t>(part - parts_.begin()), value, object.frame.size()});
    written = reader.at();
  } while (reader.take(','));
  if (!reader.take('}') || !reader.is_at_end()) return false;
  object.frame.append(written, reader.at());
  return true;
}

bool Splitter::items(std::string_view text, std::vector<std::string_view>& items) {
  items.clear();
  if (text == "[]") return true;
  Reader reader(text);
  if (!reader.take('[')) return false;
  do {
    std::string_view item;
    if (!reader.take_value(item)) return false;
    items.push_back(item);
  } while (reader.take(','));
  return reader.take(']') && reader.is_at_end();
}

}  // namespace koord
