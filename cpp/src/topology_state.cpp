// SPDX-License-Identifier: Apache-2.0
#include "koord/topology_state.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "topology_picker.hpp"

namespace koord {

using detail::for_each_bit;
using detail::kWordBits;
using detail::Word;

namespace {

struct Pod {
  CpuSet cpus;  // as given
  ExclusivePolicy exclusive;
};

struct NodePods {
  int single = 0;  // pods on this node alone
  int shared = 0;  // pods on this node and others
};

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const noexcept {
    return std::hash<std::string_view>()(text);
  }
};

void set_bit(std::vector<Word>& words, std::size_t bit) {
  words[bit / kWordBits] |= Word{1} << (bit % kWordBits);
}

void clear_bit(std::vector<Word>& words, std::size_t bit) {
  words[bit / kWordBits] &= ~(Word{1} << (bit % kWordBits));
}

}  // namespace

struct CpuState::State {
  explicit State(Topology machine)
      : topology(std::move(machine)),
        layout(topology.layout()),
        picker(layout),
        refs(layout.cpu_words * kWordBits, 0),
        used(layout.cpu_words, 0),
        available(layout.cpu_words, 0),
        preferred(layout.cpu_words, 0),
        taken(layout.cpu_words, 0),
        nodes(layout.nodes.size()) {
    for (auto& words : held) words.assign(layout.cpu_words, 0);
    node_cpus.assign(nodes.size(), std::vector<Word>(layout.cpu_words, 0));
    for (const CpuInfo& info : layout.cpus) {
      if (!info.online) continue;
      const auto cpu = static_cast<std::size_t>(info.cpu);
      set_bit(node_cpus[layout.cores[layout.core_of[cpu]].node], cpu);
    }
  }

  // One call of visit(cpu) for each CPU of the set that can be picked.
  template <class Visit>
  void for_each_cpu(const CpuSet& cpus, Visit visit) const {
    const auto words = cpus.words();
    const auto online = layout.online.words();
    for (std::size_t w = 0; w < std::min(words.size(), online.size()); ++w) {
      for (Word rest = words[w] & online[w]; rest != 0; rest &= rest - 1) {
        visit(w * kWordBits + static_cast<std::size_t>(std::countr_zero(rest)));
      }
    }
  }

  void hold(const Pod& pod);
  void let_go(const Pod& pod);
  void count_pod(const Pod& pod, int change);
  void give_back(const PickRequest& request);
  void undo_give_back();
  void find_available(const PickRequest& request);
  bool take(const PickRequest& request, const std::vector<Word>& from, int count, PassSet& passes);
  Pick pick(const PickRequest& request);

  Topology topology;
  const detail::CpuLayout& layout;
  detail::Picker picker;
  std::vector<std::uint32_t> refs;  // pods by CPU id
  std::vector<Word> used;           // CPUs with refs above 0
  // CPUs whose last pod has this policy. A CPU without pods may still be named: `used` decides.
  std::array<std::vector<Word>, 3> held;
  std::vector<Word> available;
  std::vector<Word> preferred;
  std::vector<Word> taken;
  std::vector<NodePods> nodes;
  std::vector<std::vector<Word>> node_cpus;  // the online CPUs of each node
  std::vector<std::size_t> given_back;
  std::unordered_map<std::string, Pod, StringHash, std::equal_to<>> pods;
};

void CpuState::State::hold(const Pod& pod) {
  for_each_cpu(pod.cpus, [&](std::size_t cpu) {
    ++refs[cpu];
    set_bit(used, cpu);
    for (auto& words : held) clear_bit(words, cpu);
    set_bit(held[static_cast<std::size_t>(pod.exclusive)], cpu);
  });
  count_pod(pod, 1);
}

void CpuState::State::let_go(const Pod& pod) {
  for_each_cpu(pod.cpus, [&](std::size_t cpu) {
    if (--refs[cpu] == 0) clear_bit(used, cpu);
  });
  count_pod(pod, -1);
}

void CpuState::State::count_pod(const Pod& pod, int change) {
  std::vector<bool> touched(nodes.size(), false);
  for_each_cpu(pod.cpus,
               [&](std::size_t cpu) { touched[layout.cores[layout.core_of[cpu]].node] = true; });
  const bool single = std::ranges::count(touched, true) == 1;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (touched[n]) (single ? nodes[n].single : nodes[n].shared) += change;
  }
}

// A what-if: the CPUs leave `refs` and `used` for the time of one question.
void CpuState::State::give_back(const PickRequest& request) {
  given_back.clear();
  const auto give = [&](const CpuSet& cpus) {
    for_each_cpu(cpus, [&](std::size_t cpu) {
      if (refs[cpu] == 0) return;
      if (--refs[cpu] == 0) clear_bit(used, cpu);
      given_back.push_back(cpu);
    });
  };
  if (request.preferred != nullptr) give(*request.preferred);
  for (const CpuSet& cpus : request.preemptible) give(cpus);
}

void CpuState::State::undo_give_back() {
  for (const std::size_t cpu : given_back) {
    ++refs[cpu];
    set_bit(used, cpu);
  }
}

void CpuState::State::find_available(const PickRequest& request) {
  const auto online = layout.online.words();
  std::ranges::copy(online, available.begin());
  if (request.max_ref_count <= 1) {
    for (std::size_t w = 0; w < available.size(); ++w) available[w] &= ~used[w];
  } else {
    const auto most = static_cast<std::uint32_t>(request.max_ref_count);
    for_each_bit(used.data(), 0, used.size(), [&](std::size_t cpu) {
      if (refs[cpu] >= most) clear_bit(available, cpu);
    });
  }
  if (request.reserved != nullptr) {
    for_each_cpu(*request.reserved, [&](std::size_t cpu) { clear_bit(available, cpu); });
  }
  if (request.required) picker.keep_bindable(request.bind, available.data());
  if (request.within == nullptr) return;
  const auto within = request.within->words();
  for (std::size_t w = 0; w < available.size(); ++w) {
    available[w] &= w < within.size() ? within[w] : 0;
  }
}

bool CpuState::State::take(const PickRequest& request, const std::vector<Word>& from, int count,
                           PassSet& passes) {
  auto& same_policy = held[static_cast<std::size_t>(request.exclusive)];
  return picker.take({.available = from.data(),
                      .refs = request.max_ref_count > 1 ? refs.data() : nullptr,
                      .held = same_policy.data(),
                      .used = used.data(),
                      .count = count,
                      .bind = request.bind,
                      .exclusive = request.exclusive,
                      .strategy = request.strategy},
                     taken.data(), passes);
}

// The preferred CPUs that are available go first, by rules of their own; then the rest without
// them.
Pick CpuState::State::pick(const PickRequest& request) {
  Pick answer;
  find_available(request);
  std::ranges::fill(taken, 0);
  int count = request.count;
  if (request.preferred != nullptr) {
    std::ranges::fill(preferred, 0);
    for_each_cpu(*request.preferred, [&](std::size_t cpu) { set_bit(preferred, cpu); });
    int found = 0;
    for (std::size_t w = 0; w < available.size(); ++w) {
      preferred[w] &= available[w];
      available[w] &= ~preferred[w];
      found += std::popcount(preferred[w]);
    }
    const int first = std::clamp(count, 0, found);
    take(request, preferred, first, answer.preferred_passes);
    count -= first;
  }
  if (!take(request, available, count, answer.passes))
    return {PickStatus::kNotEnoughCpus, {}, {}, {}};
  if (request.required && !picker.meets(request.bind, taken.data())) {
    return {PickStatus::kRequiredPolicyUnmet, {}, {}, {}};
  }
  answer.cpus = CpuSet::from_words(taken);
  return answer;
}

CpuState::CpuState(Topology topology) : state_(std::make_unique<State>(std::move(topology))) {}
CpuState::CpuState(CpuState&&) noexcept = default;
CpuState& CpuState::operator=(CpuState&&) noexcept = default;
CpuState::~CpuState() = default;

const Topology& CpuState::topology() const noexcept { return state_->topology; }

bool CpuState::add(std::string_view uid, const CpuSet& cpus, ExclusivePolicy exclusive) {
  const auto [pod, added] = state_->pods.try_emplace(std::string(uid), Pod{cpus, exclusive});
  if (added) state_->hold(pod->second);
  return added;
}

bool CpuState::release(std::string_view uid) {
  const auto pod = state_->pods.find(uid);
  if (pod == state_->pods.end()) return false;
  state_->let_go(pod->second);
  state_->pods.erase(pod);
  return true;
}

void CpuState::update(std::string_view uid, const CpuSet& cpus, ExclusivePolicy exclusive) {
  release(uid);
  add(uid, cpus, exclusive);
}

const CpuSet* CpuState::cpus_of(std::string_view uid) const& noexcept {
  const auto pod = state_->pods.find(uid);
  return pod == state_->pods.end() ? nullptr : &pod->second.cpus;
}

int CpuState::ref_count(int cpu) const noexcept {
  const auto index = static_cast<std::size_t>(cpu);
  return cpu < 0 || index >= state_->refs.size() ? 0 : static_cast<int>(state_->refs[index]);
}

CpuSet CpuState::allocated() const { return CpuSet::from_words(state_->used); }

NumaStatus CpuState::numa_status(int node) const noexcept {
  for (std::size_t n = 0; n < state_->nodes.size(); ++n) {
    if (state_->layout.nodes[n].id != node || node == kUnknown) continue;
    if (state_->nodes[n].shared > 0) return NumaStatus::kShared;
    return state_->nodes[n].single > 0 ? NumaStatus::kSingle : NumaStatus::kIdle;
  }
  return NumaStatus::kIdle;
}

CpuSet CpuState::available(const PickRequest& request) const {
  state_->give_back(request);
  state_->find_available(request);
  state_->undo_give_back();
  return CpuSet::from_words(state_->available);
}

std::vector<NodeCpus> CpuState::count_available(const PickRequest& request) const {
  state_->give_back(request);
  state_->find_available(request);
  state_->undo_give_back();
  std::vector<NodeCpus> counts;
  for (std::size_t n = 0; n < state_->nodes.size(); ++n) {
    int cpus = 0;
    for (std::size_t w = 0; w < state_->available.size(); ++w) {
      cpus += std::popcount(state_->available[w] & state_->node_cpus[n][w]);
    }
    counts.push_back({state_->layout.nodes[n].id, cpus});
  }
  return counts;
}

std::string CpuState::fingerprint() const {
  std::string text;
  const auto append = [&](const auto& value) {
    text.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  for (const Word word : state_->used) append(word);
  for (std::size_t policy = 1; policy < state_->held.size(); ++policy) {
    // Marks of CPUs without pods mean nothing; leave them out.
    for (std::size_t w = 0; w < state_->used.size(); ++w) {
      append(state_->held[policy][w] & state_->used[w]);
    }
  }
  for (const NodePods& node : state_->nodes) {
    append(static_cast<std::uint8_t>(node.shared > 0 ? 2 : node.single > 0 ? 1 : 0));
  }
  for_each_bit(state_->used.data(), 0, state_->used.size(), [&](std::size_t cpu) {
    if (state_->refs[cpu] == 1) return;
    append(static_cast<std::uint32_t>(cpu));
    append(state_->refs[cpu]);
  });
  return text;
}

Pick CpuState::pick(const PickRequest& request) const {
  state_->give_back(request);
  Pick answer = state_->pick(request);
  state_->undo_give_back();
  return answer;
}

}  // namespace koord
