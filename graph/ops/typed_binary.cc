// Two plain operands of one type with broadcasting: comparisons, extremes, bits, remainders, powers. Contents of integers and
// bools are carried where the operands' say enough: shape subgraphs ask such questions.
#include "graph/links.h"
#include "graph/ops/table.h"
#include "graph/ops/typing.h"
#include "runtime/element_types.h"

namespace lathe::ops {
namespace {

Dim max_dim(DimTable& dims, Dim a, Dim b) { return dims.max(a, b); }
Dim min_dim(DimTable& dims, Dim a, Dim b) { return dims.min(a, b); }

Dim equal_dim(DimTable& dims, Dim a, Dim b) {
  if (a == b) return dims.constant(1);
  return dims.never_equal(a, b) ? dims.constant(0) : Dim{};
}

// a < b, or a <= b with `slack` 1, if the bounds of a - b say so.
Dim below_dim(DimTable& dims, Dim a, Dim b, int64_t slack) {
  const Dim difference = dims.sub(a, b);
  if (!difference.valid()) return {};
  const auto low = dims.lower_bound(difference), high = dims.upper_bound(difference);
  if (high && *high < slack) return dims.constant(1);
  return low && *low >= slack ? dims.constant(0) : Dim{};
}
Dim less_dim(DimTable& dims, Dim a, Dim b) { return below_dim(dims, a, b, 0); }
Dim at_most_dim(DimTable& dims, Dim a, Dim b) { return below_dim(dims, a, b, 1); }

template <class F> Dim of_numbers(DimTable& dims, Dim a, Dim b, const F& f) {
  const auto x = dims.value(a), y = dims.value(b);
  return x && y ? dims.constant(f(*x, *y)) : Dim{};
}
Dim and_dim(DimTable& dims, Dim a, Dim b) {
  return of_numbers(dims, a, b, [](int64_t x, int64_t y) { return x & y; });
}
Dim or_dim(DimTable& dims, Dim a, Dim b) {
  return of_numbers(dims, a, b, [](int64_t x, int64_t y) { return x | y; });
}
Dim xor_dim(DimTable& dims, Dim a, Dim b) {
  return of_numbers(dims, a, b, [](int64_t x, int64_t y) { return x ^ y; });
}

template <Op kOp> Types infer_typed(const InferInput& in, DimFn fn) {
  const OperandView &a = in.in[0], &b = in.in[1];
  LATHE_CHECK_OK(want_type_of(a, kOp, "input"));
  LATHE_CHECK_OK(want_same_kind(a, b, "second input"));
  LATHE_TRY(std::vector<Dim> out, broadcast(in.dims, a.type->dims, b.type->dims));
  auto contents = fn == nullptr ? std::nullopt : binary_contents(in, out, fn);
  return result({op_compares(kOp) ? DType::kBool : a.type->dtype, std::move(out)}, false, std::move(contents));
}

Result<void> want_flag(int32_t v, const char* name) {
  if (v == 0 || v == 1) return {};
  return fail(Code::kInvalidArgument, std::string(name) + " is " + std::to_string(v) + ", must be 0 or 1");
}

template <Op kOp, DimFn kContents> Types infer_plain(const InferInput& in) { return infer_typed<kOp>(in, kContents); }

Types infer_mod(const InferInput& in) {
  LATHE_CHECK_OK(want_flag(std::get<ModAttrs>(in.attrs).truncated, "truncated"));
  return infer_typed<Op::kMod>(in, nullptr);
}
Types infer_bit_shift(const InferInput& in) {
  LATHE_CHECK_OK(want_flag(std::get<BitShiftAttrs>(in.attrs).left, "left"));
  return infer_typed<Op::kBitShift>(in, nullptr);
}

constexpr OpDef typed(Op op, Types (*infer)(const InferInput&)) {
  return {.op = op,
          .min_inputs = 2,
          .max_inputs = 2,
          .outputs = 1,
          .infer = infer,
          .quant_in = {{QuantRole::kFloatOnly}},
          .quant_out = {QuantRole::kFloatOnly},
          .half = HalfForm::kWidened,
          .layout_free = true,
          .links = link_elementwise};
}

}  // namespace

constinit const OpDef kMax = typed(Op::kMax, infer_plain<Op::kMax, max_dim>);
constinit const OpDef kMin = typed(Op::kMin, infer_plain<Op::kMin, min_dim>);
constinit const OpDef kPow = typed(Op::kPow, infer_plain<Op::kPow, nullptr>);
constinit const OpDef kMod = typed(Op::kMod, infer_mod);
constinit const OpDef kEqual = typed(Op::kEqual, infer_plain<Op::kEqual, equal_dim>);
constinit const OpDef kLess = typed(Op::kLess, infer_plain<Op::kLess, less_dim>);
constinit const OpDef kLessEqual = typed(Op::kLessEqual, infer_plain<Op::kLessEqual, at_most_dim>);
constinit const OpDef kBitAnd = typed(Op::kBitAnd, infer_plain<Op::kBitAnd, and_dim>);
constinit const OpDef kBitOr = typed(Op::kBitOr, infer_plain<Op::kBitOr, or_dim>);
constinit const OpDef kBitXor = typed(Op::kBitXor, infer_plain<Op::kBitXor, xor_dim>);
constinit const OpDef kBitShift = typed(Op::kBitShift, infer_bit_shift);

}  // namespace lathe::ops
