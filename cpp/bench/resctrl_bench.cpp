// SPDX-License-Identifier: Apache-2.0
#include "bench.hpp"
#include "koord/resctrl.hpp"

namespace {

using koord::resctrl::Schemata;

const koord::bench::Register kParse("resctrl/parse and format 16 masks", [] {
  static const std::string text = [] {
    Schemata schemata;
    schemata.l3.emplace();
    for (int id = 0; id < 16; ++id) (*schemata.l3)[id] = 0xffff;
    return schemata.format();
  }();
  koord::bench::keep(Schemata::parse(text).value().format());
});

}  // namespace
