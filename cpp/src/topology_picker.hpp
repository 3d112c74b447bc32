// SPDX-License-Identifier: Apache-2.0
// Koordinator's CPU accumulator as bitset algebra: one "take" of a number of CPUs out of a set. All
// working memory is set up with the picker.
//
// The original compares with averages (CPUs per core, node and socket). Here a core is full when
// all of its own threads are free and a node or socket is as large as it is; on machines whose
// cores, nodes and sockets are alike the two are the same.
#pragma once

#include "koord/topology_pick.hpp"
#include "topology_layout.hpp"

namespace koord::detail {

struct TakeInput {
  const Word* available;      ///< by CPU id, layout.cpu_words words, online CPUs only
  const std::uint32_t* refs;  ///< pods by CPU id; null unless CPUs are shared
  const Word* held;           ///< CPUs whose last pod has the same exclusive policy
  const Word* used;           ///< CPUs that have a pod
  int count = 0;
  BindPolicy bind = BindPolicy::kDefault;
  ExclusivePolicy exclusive = ExclusivePolicy::kNone;
  NumaStrategy strategy = NumaStrategy::kLeastAllocated;
};

class Picker {
 public:
  /// The layout must outlive the picker.
  explicit Picker(const CpuLayout& layout);

  /// Adds `count` CPUs to `taken` and says which passes gave them; false, and nothing added, when
  /// fewer are available.
  bool take(const TakeInput& input, Word* taken, PassSet& passes);

  /// Leaves of `available` what a required policy can use: CPUs of cores that are wholly free, or
  /// the lowest free CPU of each core.
  void keep_bindable(BindPolicy bind, Word* available);
  /// Whether the CPUs are whole cores, or each on a core of its own; true for kDefault.
  [[nodiscard]] bool meets(BindPolicy bind, const Word* cpus);

 private:
  struct Key {
    std::uint64_t rank;  // smaller first; never equal
    std::uint32_t core;
    std::uint32_t plane;
  };
  struct Span {
    int length;
    std::size_t socket;
  };
  struct Fit {
    int length;  // CPUs that the group can give
    int first;   // compared by strategy
    int second;  // compared by strategy where `first` ties
  };

  void load(const Word* cpus);
  void summarise();
  void block(const TakeInput& input);
  void block_node_of(std::size_t core);
  void set_pool(const std::vector<Word>& cores, bool unblocked_only);
  void count_sockets();
  [[nodiscard]] int free_cpus(const CoreGroup& group) const;
  [[nodiscard]] int pool_cores(const CoreGroup& group) const;
  template <class Measure>
  [[nodiscard]] const CoreGroup* choose(const std::vector<CoreGroup>& groups,
                                        Measure measure) const;
  [[nodiscard]] int by_strategy(int free) const;

  bool take_whole_cores();
  bool full_cores_in_node(bool filter);
  bool full_cores_in_socket();
  bool full_cores_across_sockets();
  void rank_cores(const CoreGroup& group);
  std::uint32_t take_fitting_cores(const CoreGroup& group);

  bool take_spread();
  bool spread_in_node(bool one_per_core);
  bool spread_in_socket(bool one_per_core);
  void spread_over(const CoreGroup& group, bool by_turns);
  void take_smallest();

  bool fall_back(bool filter);
  void rank_cells();
  void rank_fallback_cores();
  void take_in_turns();
  void take_core_by_core();

  [[nodiscard]] bool is_free(std::size_t core, std::size_t plane) const {
    return ((free_[plane * layout_.core_words + core / kWordBits] >> (core % kWordBits)) & 1U) != 0;
  }
  [[nodiscard]] std::uint32_t refs(std::size_t core, std::size_t plane) const {
    return input_->refs == nullptr ? 0 : input_->refs[layout_.cpu(core, plane)];
  }
  [[nodiscard]] std::uint64_t free_refs(std::size_t core) const;
  [[nodiscard]] std::uint32_t best_plane(std::size_t core) const;
  void take_cpu(std::size_t core, std::size_t plane);
  void take_core(std::size_t core);

  const CpuLayout& layout_;
  std::vector<Word> free_;     // planes
  std::vector<Word> any_;      // cores with a free CPU
  std::vector<Word> full_;     // cores with all CPUs free
  std::vector<Word> blocked_;  // cores that the exclusive policy asks to avoid
  std::vector<Word> pool_;     // cores that the pass at hand may use
  std::vector<int> socket_free_;
  std::vector<int> node_free_;
  std::vector<int> socket_taken_;
  std::vector<std::uint32_t> cell_rank_;
  std::vector<std::uint32_t> cell_order_;
  std::vector<Key> keys_;
  std::vector<Span> spans_;
  const TakeInput* input_ = nullptr;
  Word* taken_ = nullptr;
  PassSet passes_;
  int need_ = 0;
  bool any_blocked_ = false;
};

/// Calls visit(index) for every bit that is set, ascending.
template <class Visit>
void for_each_bit(const Word* words, std::size_t first, std::size_t end, Visit visit) {
  for (std::size_t w = first; w < end; ++w) {
    for (Word rest = words[w]; rest != 0; rest &= rest - 1) {
      visit(w * kWordBits + static_cast<std::size_t>(std::countr_zero(rest)));
    }
  }
}

}  // namespace koord::detail
