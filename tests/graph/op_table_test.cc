#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "graph/ir.h"
#include "graph/op_def.h"

namespace lathe {
namespace {

constexpr std::pair<Op, const char*> kOps[] = {
#define LATHE_OP(name, number, attrs) {Op::k##name, #name},
#include "runtime/ops.def"
#undef LATHE_OP
};

TEST_CASE("every line of ops.def has a definition that agrees with it and with itself") {
  for (const auto& op : kOps) {
    const OpDef& def = op_def(op.first);
    CAPTURE(std::string(op.second));
    CHECK(def.op == op.first);
    CHECK(find_op(op.second) == &def);
    CHECK((def.infer != nullptr));
    CHECK((def.max_inputs == kAnyInputs || (def.min_inputs <= def.max_inputs && def.max_inputs <= kMaxRules)));
    if (def.as_table) CHECK((def.has_s8 && def.max_inputs == 1));
    if (def.quant_out.role == QuantRole::kSameAs) CHECK(static_cast<uint8_t>(def.quant_out.index) < def.min_inputs);
    if (def.permute != nullptr) CHECK(def.layout_free);
    for (const QuantRule& rule : def.quant_in) CHECK((rule.role != QuantRole::kWeight || rule.axis >= 0));
  }
  CHECK(find_op("Fold") == nullptr);
}

std::string text_of(const Ints& v) {
  std::string s;
  for (int32_t i = 0; i < v.count; ++i) s += (i ? "," : "") + std::to_string(v[i]);
  return s;
}

// An op on operands of rank 4 with all axes told apart, with attributes that name axes where it has some.
struct LayoutCase {
  Op op;
  Attrs attrs;
  size_t operands = 1;
};
std::vector<LayoutCase> layout_cases() {
  Ints all, inner, one;
  for (int32_t i = 0; i < 4; ++i) all.values[all.count++] = i + 1;
  for (const int32_t axis : {1, 3}) inner.values[inner.count++] = axis;
  one.values[one.count++] = 2;
  Ints begins = inner, ends = inner, steps = inner;
  ends.values[0] = ends.values[1] = 5;
  steps.values[0] = steps.values[1] = 1;
  return {{Op::kExp, NoAttrs{}},
          {Op::kClamp, ClampAttrs{0, 6}},
          {Op::kAdd, BinaryAttrs{}, 2},
          {Op::kSoftmax, AxisAttrs{1}},
          {Op::kConcat, AxisAttrs{2}, 3},
          {Op::kSlice, SliceAttrs{inner, begins, ends, steps}},
          {Op::kPad, PadAttrs{all, all}},
          {Op::kMean, ReduceAttrs{inner, 1}},
          {Op::kMean, ReduceAttrs{inner, 0}},
          {Op::kMean, ReduceAttrs{one, 0}},
          {Op::kCast, CastAttrs{8}},
          {Op::kBatchNorm, BatchNormAttrs{1e-5f, 1}}};
}

ValueId must_add(Graph& g, Op op, Attrs attrs, std::vector<ValueId> inputs, const std::string& name) {
  const auto n = g.add_node(op, std::move(attrs), std::move(inputs), name);
  REQUIRE_MESSAGE(n, n.error().message);
  return g.node(*n).outputs[0];
}

// Type of op(transpose(x, perm)) and of transpose(op'(x), out_perm).
void check_moves(const LayoutCase& c, const Ints& perm) {
  Graph g;
  DimTable& d = g.dims();
  std::vector<ValueId> plain, transposed;
  for (size_t i = 0; i < c.operands; ++i) {
    const ValueId x =
        g.add_input("x" + std::to_string(i), {DType::kF32, {d.symbol("N"), d.constant(7), d.constant(8), d.constant(9)}});
    plain.push_back(x);
    transposed.push_back(must_add(g, Op::kTranspose, PermAttrs{perm}, {x}, "t" + std::to_string(i)));
  }
  if (c.op == Op::kBatchNorm) {
    // Parameters run along one axis, so they stay as they are.
    const Dim channels = g.value(transposed[0]).type.dims[1];
    for (int i = 0; i < 4; ++i) plain.push_back(g.add_input("p" + std::to_string(i), {DType::kF32, {channels}}));
    transposed.insert(transposed.end(), plain.end() - 4, plain.end());
  }
  const ValueId above = must_add(g, c.op, c.attrs, transposed, "above");
  Attrs attrs = c.attrs;
  const OpDef& def = op_def(c.op);
  const Ints out_perm = def.permute != nullptr ? def.permute(attrs, perm) : perm;
  const ValueId below = must_add(g, c.op, attrs, plain, "below");
  const ValueId back = must_add(g, Op::kTranspose, PermAttrs{out_perm}, {below}, "back");
  CAPTURE(op_name(c.op));
  CAPTURE(text_of(perm));
  CHECK(print_type(d, g.value(back).type) == print_type(d, g.value(above).type));
}

TEST_CASE("a transpose moves through every layout-free op without changing the result's type") {
  for (const LayoutCase& c : layout_cases()) {
    REQUIRE(op_def(c.op).layout_free);
    Ints perm;
    for (int32_t i = 0; i < 4; ++i) perm.values[perm.count++] = i;
    do check_moves(c, perm);
    while (std::next_permutation(perm.values, perm.values + 4));
  }
}

TEST_CASE("multiply-accumulates are counted in symbols") {
  const auto macs = [](const std::string& text) {
    const auto g = parse_graph(text);
    REQUIRE_MESSAGE(g, g.error().message);
    const Node& n = g->node(g->order()[0]);
    std::vector<OperandView> in;
    for (const ValueId v : n.inputs) in.push_back({.type = &g->value(v).type});
    const std::vector<TensorType> out = {g->value(n.outputs[0]).type};
    return g->dims().text(op_def(n.op).macs({g->dims(), in, n.attrs}, out));
  };
  CHECK(macs("graph { input %x : f32[N,32,32,8] constant %w : f32[16,3,3,4] = splat 1 %y = Conv2d (%x, %w) {groups=2, "
             "pad=[1,1,1,1]} output %y }") == "N*589824");  // 32 * 32 * 16 * 3 * 3 * 4
  CHECK(macs("graph { input %x : f32[N,5,6,8] constant %w : f32[16,3,2,4] = splat 1 %y = ConvTranspose2d (%x, %w) {groups=2, "
             "stride=[2,2]} output %y }") == "N*11520");  // 5 * 6 * 8 * 3 * 2 * 8
  CHECK(macs("graph { input %x : f32[N,T,8] constant %w : f32[16,8] = splat 1 %y = FullyConnected (%x, %w) output %y }") ==
        "N*T*128");
  CHECK(
      macs("graph { input %x : f32[N,S,4,16] input %k : f32[N,S,4,16] %y = MatMul (%x, %k) {a_perm=[0,2,1,3], b_perm=[0,2,3,1]} "
           "output %y }") == "N*S*S*64");
}

}  // namespace
}  // namespace lathe
