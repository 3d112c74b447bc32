// SPDX-License-Identifier: Apache-2.0
#include "bench.hpp"
#include "koord/quantity.hpp"

using koord::Quantity;
using koord::bench::Register;

namespace {

void parse(std::string_view text) {
  koord::bench::keep(koord::parse_count(text, koord::Unit::kMilli, koord::Rounding::kUp));
}

const Register kMilli("quantity/parse 500m", [] { parse("500m"); });
const Register kWhole("quantity/parse 16", [] { parse("16"); });
const Register kBinary("quantity/parse 1.5Gi", [] { parse("1.5Gi"); });
const Register kPrint("quantity/print 1536Mi", [quantity = Quantity::parse("1.5Gi").value()] {
  koord::bench::keep(quantity.to_string());
});
const Register kAdd("quantity/add 1536Mi and 512Mi",
                    [a = Quantity::parse("1536Mi").value(), b = Quantity::parse("512Mi").value()] {
                      koord::bench::keep(a.add(b));
                    });

}  // namespace
