// SPDX-License-Identifier: Apache-2.0
#include "bench.hpp"
#include "koord/cpuset.hpp"

using koord::CpuSet;
using koord::bench::Register;

namespace {

constexpr std::string_view kList = "0-3,8-11,16,20-47,64-95,128-255";

const Register kParse("cpuset/parse 256 CPUs", [] { koord::bench::keep(CpuSet::parse(kList)); });
const Register kParseWire("cpuset/parse_wire 256 CPUs",
                          [] { koord::bench::keep(CpuSet::parse_wire(kList)); });
const Register kPrint("cpuset/print 256 CPUs",
                      [set = CpuSet::parse(kList).value()] { koord::bench::keep(set.format()); });
const Register kUnion("cpuset/union 256 CPUs",
                      [a = CpuSet::range(0, 200), b = CpuSet::range(100, 255)] {
                        koord::bench::keep(a | b);
                      });

}  // namespace
