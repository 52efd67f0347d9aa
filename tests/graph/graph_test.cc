#include <doctest/doctest.h>

#include "graph/ir.h"
#include "graph/op_def.h"
#include "graph/rewriter.h"

namespace lathe {
namespace {

TEST_CASE("a small convolution graph infers symbolic dims and verifies") {
  Graph g;
  DimTable& d = g.dims();
  const ValueId x = g.add_input("x", {DType::kF32, {d.symbol("N"), d.symbol("H"), d.constant(32), d.constant(3)}});
  const ValueId w = g.add_constant("w", {DType::kF32, {d.constant(8), d.constant(3), d.constant(3), d.constant(3)}},
                                   Constant::of(std::vector<float>(216)));
  Conv2dAttrs a;
  a.stride[0] = a.stride[1] = 2;
  for (int& p : a.pad) p = 1;
  const auto n = g.add_node(Op::kConv2d, a, {x, w}, "conv");
  REQUIRE_MESSAGE(n, n.error().message);
  g.add_output(g.node(*n).outputs[0]);
  CHECK(print_type(d, g.value(g.node(*n).outputs[0]).type) == "f32[N,floordiv(H+1,2),16,8]");
  const auto ok = verify(g);
  CHECK_MESSAGE(ok, ok.error().message);
}

}  // namespace
}  // namespace lathe
