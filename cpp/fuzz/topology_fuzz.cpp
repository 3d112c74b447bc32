// SPDX-License-Identifier: Apache-2.0
// A machine and pods that come, go and ask for CPUs, as a program says.
#include "fuzz.hpp"
#include "koord/topology_state.hpp"

using koord::CpuInfo;
using koord::CpuSet;
using koord::CpuState;
using koord::ExclusivePolicy;
using koord::Pick;
using koord::PickRequest;
using koord::Topology;
using koord::fuzz::Program;

namespace {

// A regular machine with holes: some ids unknown, some CPUs offline, at times an id given twice.
std::vector<CpuInfo> cpus_of(Program& program) {
  const int threads = program.number(1, 4);
  const int cores = program.number(1, 6);
  const int nodes = program.number(1, 3);
  const int sockets = program.number(1, 2);
  const int stride = program.number(1, 3);
  const std::uint8_t odd = program.byte();
  std::vector<CpuInfo> cpus;
  const int per_node = cores * threads;
  for (int i = 0; i < sockets * nodes * per_node; ++i) {
    cpus.push_back({.cpu = i * stride,
                    .core = i / threads,
                    .socket = i / (nodes * per_node),
                    .node = i / per_node,
                    .l3 = i / (2 * threads)});
  }
  for (int changes = odd % 8; changes > 0; --changes) {
    CpuInfo& cpu = cpus[program.below(cpus.size())];
    int* const fields[] = {&cpu.core, &cpu.socket, &cpu.node, &cpu.l3, &cpu.cpu};
    const std::size_t field = program.below(7);
    if (field < std::size(fields)) {
      *fields[field] = static_cast<int>(program.signed_amount(koord::fuzz::kInt64Max));
    } else {
      cpu.online = false;
    }
  }
  return cpus;
}

CpuSet some(Program& program, const Topology& topology) {
  CpuSet set;
  for (std::size_t left = program.below(6); left > 0; --left) {
    const int first = topology.cpus()[program.below(topology.cpus().size())].cpu;
    set.insert_range(first, std::min(CpuSet::kMaxId, first + program.number(0, 9)));
  }
  return set;
}

// The sets that a request borrows.
struct Borrowed {
  CpuSet reserved, preferred, within;
  std::vector<CpuSet> preemptible;
};

PickRequest request_of(Program& program, const Topology& topology, Borrowed& sets) {
  PickRequest request;
  request.count = static_cast<int>(program.signed_amount(200));
  request.bind = static_cast<koord::BindPolicy>(program.below(3));
  request.required = program.flag();
  request.exclusive = static_cast<ExclusivePolicy>(program.below(3));
  request.strategy = static_cast<koord::NumaStrategy>(program.below(3));
  request.max_ref_count = static_cast<int>(program.amount(3));
  const std::uint8_t which = program.byte();
  const auto borrow = [&](unsigned bit, CpuSet& set) -> const CpuSet* {
    if ((which >> bit & 1U) == 0) return nullptr;
    set = some(program, topology);
    return &set;
  };
  request.reserved = borrow(0, sets.reserved);
  request.preferred = borrow(1, sets.preferred);
  request.within = borrow(2, sets.within);
  for (unsigned bit = 3; bit < 5; ++bit) {
    if ((which >> bit & 1U) != 0) sets.preemptible.push_back(some(program, topology));
  }
  request.preemptible = sets.preemptible;
  return request;
}

void check_pick(const CpuState& state, const PickRequest& request) {
  const std::string before = state.fingerprint();
  const Pick pick = state.pick(request);
  FUZZ_CHECK(state.fingerprint() == before);
  FUZZ_CHECK(pick.cpus.count() == (pick.ok() ? std::max(0, request.count) : 0));
  FUZZ_CHECK(pick.pass_name().size() <= 1024);
  (void)koord::reason(pick.status, request.bind);
  const CpuSet available = state.available(request);
  FUZZ_CHECK(available.is_subset_of(state.topology().online()));
  FUZZ_CHECK(pick.cpus.is_subset_of(available));
  if (request.reserved != nullptr) FUZZ_CHECK(!pick.cpus.intersects(*request.reserved));
  if (request.within != nullptr) FUZZ_CHECK(pick.cpus.is_subset_of(*request.within));
  int counted = 0;
  for (const koord::NodeCpus& node : state.count_available(request)) {
    FUZZ_CHECK(node.cpus >= 0);
    counted += node.cpus;
  }
  FUZZ_CHECK(counted == available.count());
}

void check_counts(const CpuState& state, const std::array<bool, 8>& known) {
  const CpuSet allocated = state.allocated();
  for (const CpuInfo& cpu : state.topology().cpus()) {
    const int held = state.ref_count(cpu.cpu);
    FUZZ_CHECK(held >= 0 && held <= 8);
    FUZZ_CHECK((held > 0) == allocated.contains(cpu.cpu));
  }
  if (std::ranges::none_of(known, [](bool pod) { return pod; })) FUZZ_CHECK(allocated.empty());
}

void step(Program& program, CpuState& state, std::array<bool, 8>& known) {
  const std::size_t pod = program.below(known.size());
  const std::string uid = std::to_string(pod);
  const auto exclusive = static_cast<ExclusivePolicy>(program.below(3));
  switch (program.below(4)) {
    case 0:
      FUZZ_CHECK(state.add(uid, some(program, state.topology()), exclusive) != known[pod]);
      known[pod] = true;
      break;
    case 1:
      FUZZ_CHECK(state.release(uid) == known[pod]);
      known[pod] = false;
      break;
    case 2:
      state.update(uid, some(program, state.topology()), exclusive);
      known[pod] = true;
      break;
    default: {
      Borrowed sets;
      check_pick(state, request_of(program, state.topology(), sets));
    }
  }
  FUZZ_CHECK((state.cpus_of(uid) != nullptr) == known[pod]);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Program program(data, size);
  auto topology = Topology::from_cpus(cpus_of(program));
  FUZZ_CHECK(topology.ok() || koord::fuzz::readable(topology.error()));
  if (!topology.ok()) return 0;
  CpuState state(topology.value());
  const koord::TopologySummary summary = topology.value().summary();
  FUZZ_CHECK(summary.cpus == topology.value().online().count() && summary.cpus > 0);
  std::array<bool, 8> known{};
  for (int steps = 0; steps < 48 && !program.ended(); ++steps) step(program, state, known);
  check_counts(state, known);
  for (std::size_t pod = 0; pod < known.size(); ++pod) {
    if (known[pod]) FUZZ_CHECK(state.release(std::to_string(pod)));
  }
  check_counts(state, {});
  FUZZ_CHECK(state.fingerprint() == CpuState(topology.value()).fingerprint());
  return 0;
}
