// SPDX-License-Identifier: Apache-2.0
// JSON texts taken apart: an object into its parts and its frame, a list into its items.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "koord/error.hpp"

namespace koord {

/// Takes objects apart as texts: some members are an object's *parts*, what is left of its text is
/// its *frame*. Only texts that say no more than their members do are taken apart: without space
/// around members, no name twice. A value is followed by its brackets and quotes alone, which is
/// why it is many times as fast as a parser; whether it is JSON is for others to check. Not changed
/// by use: many threads may share one.
class KOORD_API Splitter {
 public:
  /// An object with more members is not taken apart: each name is compared with those before it.
  static constexpr std::size_t kMaxMembers = 64;
  /// How many names may be noted.
  static constexpr std::size_t kMaxNoted = 64;

  struct Part {
    /// Which of the names of parts.
    std::uint32_t name = 0;
    /// Of its value.
    std::string_view text{};
    /// The index of the frame at which the text stood.
    std::size_t place = 0;
  };
  struct Object {
    /// The text without those of the parts.
    std::string frame{};
    /// In the order of the text.
    std::vector<Part> parts{};
    /// A bit for each name to be noted, the first one lowest: whether there is such a member.
    std::uint64_t noted = 0;
  };

  /// @param parts the names of members that are parts.
  /// @param noted names of members, parts or not, of which it is said whether they are there.
  /// Throws Exception where too many are noted.
  Splitter(std::vector<std::string> parts, std::vector<std::string> noted);

  /// Takes an object with members apart.
  /// @return false, with `object` in any state, for any other text.
  [[nodiscard]] bool split(std::string_view text, Object& object) const;
  /// Finds the items of a list without space around them.
  /// @return false, with `items` in any state, for any other text.
  [[nodiscard]] static bool items(std::string_view text, std::vector<std::string_view>& items);

 private:
  std::vector<std::string> parts_;
  std::vector<std::string> noted_;
};

}  // namespace koord
