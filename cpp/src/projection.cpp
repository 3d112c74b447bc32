// SPDX-License-Identifier: Apache-2.0
#include "koord/projection.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "json_skip.hpp"

namespace koord {

// Reads one text from its beginning to its end, and writes what is kept.
class ProjectionReader {
 public:
  ProjectionReader(const std::vector<Projection::Rule>& rules, std::string_view text,
                   std::string& out, std::vector<Projection::Span>& rows, std::size_t columns)
      : rules_(rules),
        at_(text.data()),
        end_(text.data() + text.size()),
        out_(out),
        rows_(rows),
        columns_(columns) {}

  bool whole_text(Projection::Node node) {
    begin_row();
    skip_space();
    if (!value(node)) return false;
    skip_space();
    return at_ == end_;
  }

 private:
  using Rule = Projection::Rule;
  using Kind = Projection::Kind;

  bool value(Projection::Node node) {
    const Rule& rule = rules_[node];
    if (at_ == end_) return false;
    if (rule.kind == Kind::kMark) return marked(rule);
    if (rule.kind == Kind::kObject && *at_ == '{') return object(rule);
    if (rule.kind == Kind::kList && *at_ == '[') return list(rule);
    const char* begin = at_;
    if (!skip()) return false;
    out_.append(begin, at_);
    return true;
  }

  bool marked(const Rule& rule) {
    const Kind kind = rules_[rule.item].kind;
    if (kind == Kind::kObject && *at_ != '{') return false;
    if (kind == Kind::kList && *at_ != '[') return false;
    const std::size_t begin = out_.size();
    if (!value(rule.item)) return false;
    Projection::Span& span = rows_[row_ + rule.column];
    if (span.end != 0 || out_.size() > std::numeric_limits<std::uint32_t>::max()) return false;
    span = {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(out_.size())};
    return true;
  }

  void begin_row() {
    row_ = rows_.size();
    rows_.resize(row_ + columns_);
  }

  bool object(const Rule& rule) {
    out_.push_back('{');
    ++at_;
    // Members mostly come in the order of last time.
    std::size_t expected = 0;
    bool first = true;
    if (!begins_item('}')) return close('}');
    do {
      std::string_view name;
      if (!member_name(name)) return false;
      const Projection::Member* member = find(rule, name, expected);
      if (member == nullptr) {
        if (!skip()) return false;
      } else {
        if (!first) out_.push_back(',');
        first = false;
        out_.push_back('"');
        out_.append(name);
        out_.append("\":");
        if (!value(member->node)) return false;
      }
    } while (next_item());
    return close('}');
  }

  bool list(const Rule& rule) {
    out_.push_back('[');
    ++at_;
    const Rule& item = rules_[rule.item];
    const std::size_t outer = row_;
    bool first = true;
    if (!begins_item(']')) return close(']');
    do {
      const std::size_t mark = out_.size();
      if (!first) out_.push_back(',');
      const std::size_t begin = out_.size();
      if (item.marks) begin_row();
      if (!value(rule.item)) return false;
      row_ = outer;
      bool left_out = false;
      if (item.kind == Kind::kUnless && !has_member(begin, item.name, left_out)) return false;
      if (left_out) {
        out_.resize(mark);
      } else {
        first = false;
      }
    } while (next_item());
    return close(']');
  }

  // Whether the value that was just written, from `begin` on, is an object with such a member.
  bool has_member(std::size_t begin, const std::string& name, bool& found) {
    if (out_[begin] != '{') return true;
    std::string nothing;
    ProjectionReader inside(rules_, std::string_view(out_).substr(begin), nothing, rows_, columns_);
    ++inside.at_;
    if (!inside.begins_item('}')) return inside.close('}');
    do {
      std::string_view each;
      if (!inside.member_name(each) || !inside.skip()) return false;
      found = found || each == name;
    } while (inside.next_item());
    return inside.close('}');
  }

  static const Projection::Member* find(const Rule& rule, std::string_view name,
                                        std::size_t& expected) {
    const std::size_t count = rule.members.size();
    for (std::size_t step = 0; step < count; ++step) {
      const std::size_t index = expected + step < count ? expected + step : expected + step - count;
      if (rule.members[index].name == name) {
        expected = index + 1 < count ? index + 1 : 0;
        return &rule.members[index];
      }
    }
    return nullptr;
  }

  // Stands after an opening bracket: whether an item comes, and not the closing one.
  bool begins_item(char closing) {
    skip_space();
    return at_ != end_ && *at_ != closing;
  }

  // Stands after an item: whether another one comes.
  bool next_item() {
    skip_space();
    if (at_ == end_ || *at_ != ',') return false;
    ++at_;
    skip_space();
    return true;
  }

  bool close(char bracket) {
    if (at_ == end_ || *at_ != bracket) return false;
    ++at_;
    out_.push_back(bracket);
    return true;
  }

  bool member_name(std::string_view& name) {
    if (at_ == end_ || *at_ != '"') return false;
    bool escaped = false;
    const char* quote = string_end(at_ + 1, end_, escaped);
    if (quote == nullptr || escaped) return false;
    name = std::string_view(at_ + 1, static_cast<std::size_t>(quote - at_ - 1));
    at_ = quote + 1;
    skip_space();
    if (at_ == end_ || *at_ != ':') return false;
    ++at_;
    skip_space();
    return true;
  }

  bool skip() {
    const char* last = skip_value(at_, end_);
    if (last == nullptr) return false;
    at_ = last;
    return true;
  }

  void skip_space() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }

  const std::vector<Rule>& rules_;
  const char* at_;
  const char* end_;
  std::string& out_;
  std::vector<Projection::Span>& rows_;
  std::size_t columns_;
  // Where the row begins that marks are noted in.
  std::size_t row_ = 0;
};

Projection::Projection() : rules_(1) {}

Projection::Node Projection::object(const std::vector<std::string>& names,
                                    const std::vector<Node>& members) {
  if (names.size() != members.size()) {
    throw Exception(invalid("members", std::to_string(members.size()), "one a name"));
  }
  Rule rule{.kind = Kind::kObject};
  for (std::size_t index = 0; index < names.size(); ++index) {
    const std::string& name = names[index];
    const bool plain = std::none_of(name.begin(), name.end(), [](char each) {
      return each == '"' || each == '\\' || (each >= 0 && each < ' ');
    });
    if (!plain) throw Exception(invalid("name", name, "characters that JSON need not escape"));
    rule.members.push_back({name, members[index]});
  }
  return add(std::move(rule), members);
}

Projection::Node Projection::list(Node item) {
  return add({.kind = Kind::kList, .item = item}, {item});
}

Projection::Node Projection::unless(const std::string& name) {
  return add({.kind = Kind::kUnless, .name = name}, {});
}

Projection::Node Projection::mark(Node node, std::uint32_t column) {
  if (column >= kMaxColumns) {
    throw Exception(invalid("column", std::to_string(column), "less than 1024"));
  }
  columns_ = std::max<std::size_t>(columns_, column + 1);
  return add({.kind = Kind::kMark, .item = node, .column = column, .marks = true}, {node});
}

Projection::Node Projection::add(Rule rule, const std::vector<Node>& below) {
  for (const Node node : below) {
    if (node >= rules_.size()) {
      throw Exception(invalid("node", std::to_string(node), "a node that was made before"));
    }
    rule.depth = std::max(rule.depth, rules_[node].depth + 1);
    rule.marks = rule.marks || rules_[node].marks;
  }
  if (rule.depth > kMaxDepth) {
    throw Exception(invalid("depth", std::to_string(rule.depth), "64 or less"));
  }
  rules_.push_back(std::move(rule));
  return static_cast<Node>(rules_.size() - 1);
}

bool Projection::cut(std::string_view text, Node node, std::string& out) const {
  std::vector<Span> rows;
  return cut(text, node, out, rows);
}

bool Projection::cut(std::string_view text, Node node, std::string& out,
                     std::vector<Span>& rows) const {
  if (node >= rules_.size()) {
    throw Exception(invalid("node", std::to_string(node), "a node of this projection"));
  }
  const std::size_t before = out.size();
  if (ProjectionReader(rules_, text, out, rows, columns_).whole_text(node)) return true;
  out.resize(before);
  return false;
}

}  // namespace koord
