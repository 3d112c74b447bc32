// SPDX-License-Identifier: Apache-2.0
// JSON texts cut down to the members that somebody reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "koord/error.hpp"

namespace koord {

/// What of a JSON text is kept: a tree of nodes, made from the leaves up. A projection only cuts
/// out: what it keeps stands in the result byte for byte, without the space between members. Of
/// what it leaves out it checks no more than that brackets and quotes are balanced, which is why it
/// is many times as fast as a parser that looks at every value. Not changed by use: many threads
/// may share one that is complete.
class KOORD_API Projection {
 public:
  using Node = std::uint32_t;
  /// The node that keeps a value whole.
  static constexpr Node kWhole = 0;
  /// Where a value stands in a result, from its first byte to behind its last one.
  struct Span {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
  };
  /// How deep nodes may lie within each other.
  static constexpr int kMaxDepth = 64;
  /// How many columns there may be.
  static constexpr std::uint32_t kMaxColumns = 1024;

  Projection();
  /// A node that keeps these members of an object, each cut by its node. Any other value is kept
  /// whole. Throws Exception when a node does not exist or lies too deep, or a name has to be
  /// escaped in JSON.
  Node object(const std::vector<std::string>& names, const std::vector<Node>& members);
  /// A node that cuts every item of a list by a node. Any other value is kept whole.
  Node list(Node item);
  /// A node that keeps an item of a list whole, unless it is an object with a member of this name:
  /// then the item is left out. Anywhere but in a list it keeps values whole.
  Node unless(const std::string& name);
  /// A node that does as another one, and notes in a column where its value stands.
  /// The value must be an object or a list where that node is for one.
  Node mark(Node node, std::uint32_t column);

  /// Appends a JSON text, cut by a node, to `out`.
  /// @return false, with `out` as it was, where the text cannot be followed: it is no JSON, more
  /// follows it, or a member of an object that is cut has its name written with escapes.
  [[nodiscard]] bool cut(std::string_view text, Node node, std::string& out) const;
  /// The same, with the places of marked values, as indexes of `out`.
  /// @param rows a row of spans for the text, then one for each item of every list whose items have
  /// marks within; in each as many columns as were marked. A span that was not there is empty.
  /// @return false too where a marked value is of another sort than its node, stands twice in one
  /// row, or beyond 4 GiB.
  [[nodiscard]] bool cut(std::string_view text, Node node, std::string& out,
                         std::vector<Span>& rows) const;
  /// How many columns a row has.
  [[nodiscard]] std::size_t columns() const { return columns_; }

 private:
  friend class ProjectionReader;
  enum class Kind : std::uint8_t { kWhole, kObject, kList, kUnless, kMark };
  struct Member {
    std::string name;
    Node node;
  };
  struct Rule {
    Kind kind = Kind::kWhole;
    int depth = 0;
    Node item = kWhole;
    std::uint32_t column = 0;
    bool marks = false;
    std::string name{};
    std::vector<Member> members{};
  };

  Node add(Rule rule, const std::vector<Node>& below);

  std::vector<Rule> rules_;
  std::size_t columns_ = 0;
};

}  // namespace koord
