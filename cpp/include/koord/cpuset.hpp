// SPDX-License-Identifier: Apache-2.0
// Sets of logical CPU ids as bitsets, and the texts Linux writes them in: cpu lists ("0-3,8") and
// masks ("ff,00000000").
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "koord/error.hpp"

namespace koord {

/// A set of CPU ids from 0 to kMaxId. Every operation costs time in the number of 64-bit words up
/// to the highest id ever held. Not synchronised: many readers or one writer.
class KOORD_API CpuSet {
 public:
  using Word = std::uint64_t;
  static constexpr int kWordBits = 64;
  /// The highest id: Linux is built for at most 8,192 CPUs.
  static constexpr int kMaxId = 8191;
  /// The highest end of a range that the lenient parser takes, as Koordinator does.
  static constexpr int kMaxWireRangeEnd = 4096;

  class Iterator;

  CpuSet() = default;
  /// Throws Exception when an id lies outside 0..kMaxId.
  CpuSet(std::initializer_list<int> ids) {
    for (const int id : ids) insert(id);
  }
  /// The ids first..last; empty when last < first. Throws Exception when one lies outside
  /// 0..kMaxId.
  static CpuSet range(int first, int last) {
    CpuSet set;
    set.insert_range(first, last);
    return set;
  }

  /// Strict, for what people type: ids and ascending ranges joined by commas, in any order, every
  /// id once, no spaces. The empty text is the empty set.
  static Result<CpuSet> parse(std::string_view text);
  /// Lenient, for what other programs wrote: ids may repeat, a reversed range adds nothing, a
  /// number may carry a plus sign. A range must end at kMaxWireRangeEnd or below, an id at kMaxId
  /// or below.
  static Result<CpuSet> parse_wire(std::string_view text);
  /// Comma-separated 32-bit words in hex, highest first, as in shared_cpu_map.
  static Result<CpuSet> parse_mask(std::string_view text);
  /// Ascending, runs of two or more as "a-b"; "" when empty. parse() reads it back.
  [[nodiscard]] std::string format() const;
  /// The mask form, words of eight digits; "00000000" when empty. parse_mask() reads it back.
  [[nodiscard]] std::string format_mask() const;

  [[nodiscard]] bool contains(int id) const noexcept {
    const auto word = static_cast<std::size_t>(id) / kWordBits;
    return id >= 0 && word < words_.size() && ((words_[word] >> (id % kWordBits)) & 1U) != 0;
  }
  [[nodiscard]] bool empty() const noexcept { return words_.empty(); }
  [[nodiscard]] int count() const noexcept {
    int total = 0;
    for (const Word word : words_) total += std::popcount(word);
    return total;
  }
  /// The lowest id, or -1 when empty.
  [[nodiscard]] int first() const noexcept { return next(-1); }
  /// The highest id, or -1 when empty.
  [[nodiscard]] int last() const noexcept {
    return static_cast<int>(words_.size()) * kWordBits - 1 -
           (words_.empty() ? 0 : std::countl_zero(words_.back()));
  }
  /// The lowest id above `id` (which is -1 or more), or -1 when there is none.
  [[nodiscard]] int next(int id) const noexcept {
    ++id;
    auto index = static_cast<std::size_t>(id) / kWordBits;
    if (index >= words_.size()) return -1;
    Word word = words_[index] & (~Word{0} << (id % kWordBits));
    while (word == 0) {
      if (++index == words_.size()) return -1;
      word = words_[index];
    }
    return static_cast<int>(index) * kWordBits + std::countr_zero(word);
  }
  [[nodiscard]] Iterator begin() const noexcept;
  [[nodiscard]] Iterator end() const noexcept;

  /// Throws Exception when the id lies outside 0..kMaxId.
  void insert(int id) {
    require_id(id);
    grow(static_cast<std::size_t>(id) / kWordBits + 1);
    words_[static_cast<std::size_t>(id) / kWordBits] |= Word{1} << (id % kWordBits);
  }
  /// Adds first..last, nothing when last < first. Throws Exception when one lies outside 0..kMaxId.
  void insert_range(int first, int last);
  /// Does nothing when the id is absent.
  void erase(int id) noexcept {
    if (!contains(id)) return;
    words_[static_cast<std::size_t>(id) / kWordBits] &= ~(Word{1} << (id % kWordBits));
    trim();
  }
  void clear() noexcept { words_.clear(); }

  CpuSet& operator|=(const CpuSet& other) {
    grow(other.words_.size());
    for (std::size_t i = 0; i < other.words_.size(); ++i) words_[i] |= other.words_[i];
    return *this;
  }
  CpuSet& operator&=(const CpuSet& other) noexcept {
    words_.resize(std::min(words_.size(), other.words_.size()));
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] &= other.words_[i];
    trim();
    return *this;
  }
  /// Difference.
  CpuSet& operator-=(const CpuSet& other) noexcept {
    const std::size_t shared = std::min(words_.size(), other.words_.size());
    for (std::size_t i = 0; i < shared; ++i) words_[i] &= ~other.words_[i];
    trim();
    return *this;
  }
  /// Symmetric difference.
  CpuSet& operator^=(const CpuSet& other) {
    grow(other.words_.size());
    for (std::size_t i = 0; i < other.words_.size(); ++i) words_[i] ^= other.words_[i];
    trim();
    return *this;
  }
  friend CpuSet operator|(CpuSet a, const CpuSet& b) { return a |= b; }
  friend CpuSet operator&(CpuSet a, const CpuSet& b) { return a &= b; }
  friend CpuSet operator-(CpuSet a, const CpuSet& b) { return a -= b; }
  friend CpuSet operator^(CpuSet a, const CpuSet& b) { return a ^= b; }
  friend bool operator==(const CpuSet&, const CpuSet&) = default;

  [[nodiscard]] bool is_subset_of(const CpuSet& other) const noexcept {
    if (words_.size() > other.words_.size()) return false;
    for (std::size_t i = 0; i < words_.size(); ++i) {
      if ((words_[i] & ~other.words_[i]) != 0) return false;
    }
    return true;
  }
  [[nodiscard]] bool intersects(const CpuSet& other) const noexcept {
    const std::size_t shared = std::min(words_.size(), other.words_.size());
    for (std::size_t i = 0; i < shared; ++i) {
      if ((words_[i] & other.words_[i]) != 0) return true;
    }
    return false;
  }

  /// Equal sets have equal hashes.
  [[nodiscard]] std::size_t hash() const noexcept {
    std::size_t mixed = 0;
    for (const Word word : words_) mixed = mixed * 0x9e3779b97f4a7c15U + word;
    return mixed;
  }

  /// Word i holds ids 64i..64i+63, lowest bit first; the last word is never 0. Valid until the set
  /// changes or goes.
  [[nodiscard]] std::span<const Word> words() const& noexcept { return words_; }
  std::span<const Word> words() && = delete;
  /// The set whose words these are. Throws Exception when a bit above kMaxId is set.
  static CpuSet from_words(std::span<const Word> words);

 private:
  static void require_id(int id) {
    if (id < 0 || id > kMaxId) throw_bad_id(id);
  }
  [[noreturn]] static void throw_bad_id(int id);
  void grow(std::size_t words) {
    if (words > words_.size()) words_.resize(words);
  }
  void trim() noexcept {
    while (!words_.empty() && words_.back() == 0) words_.pop_back();
  }

  // No zero word at the end, so that equal sets have equal words.
  std::vector<Word> words_;
};

/// Walks the ids upwards; invalidated when the set changes.
class CpuSet::Iterator {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = int;
  using difference_type = std::ptrdiff_t;
  using pointer = const int*;
  using reference = int;

  Iterator() = default;
  Iterator(const CpuSet* set, int id) noexcept : set_(set), id_(id) {}
  int operator*() const noexcept { return id_; }
  Iterator& operator++() noexcept {
    id_ = set_->next(id_);
    return *this;
  }
  Iterator operator++(int) noexcept {
    const Iterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const Iterator& a, const Iterator& b) noexcept { return a.id_ == b.id_; }

 private:
  const CpuSet* set_ = nullptr;
  int id_ = -1;
};

inline CpuSet::Iterator CpuSet::begin() const noexcept { return {this, first()}; }
inline CpuSet::Iterator CpuSet::end() const noexcept { return {this, -1}; }

}  // namespace koord
