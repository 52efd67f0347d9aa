// MatMul: a [.., m, k], b [.., k, n] after their permutations; the dims before broadcast.
#include <cmath>

#include "graph/links.h"
#include "graph/ops/table.h"
#include "graph/ops/typing.h"

namespace lathe::ops {
namespace {

// `dims` in the order of `perm`; an empty one keeps them.
Result<std::vector<Dim>> in_order(const std::vector<Dim>& dims, const Ints& perm, const std::string& what) {
  if (perm.count == 0) return dims;
  if (static_cast<size_t>(perm.count) != dims.size())
    return fail(Code::kInvalidArgument,
                what + "_perm has " + std::to_string(perm.count) + " entries, rank is " + std::to_string(dims.size()));
  std::vector<Dim> out;
  uint32_t seen = 0;
  for (int32_t i = 0; i < perm.count; ++i) {
    const int32_t axis = perm[i];
    if (axis < 0 || axis >= perm.count || (seen >> axis & 1) != 0)
      return fail(Code::kInvalidArgument, what + "_perm is not a permutation");
    seen |= 1u << axis;
    out.push_back(dims[static_cast<size_t>(axis)]);
  }
  return out;
}

Result<void> want_last_axis(const Ints& perm, const char* what) {
  if (perm.count == 0 || perm[perm.count - 1] == perm.count - 1) return {};
  return fail(Code::kInvalidArgument, std::string(what) + "_perm moves the last axis");
}

Result<void> check_attrs(const MatMulAttrs& a) {
  LATHE_CHECK_OK(want_last_axis(a.a_perm, "a"));
  LATHE_CHECK_OK(want_last_axis(a.y_perm, "y"));
  if (!std::isnormal(a.scale) || a.scale < 0)
    return fail(Code::kInvalidArgument, "scale is " + std::to_string(a.scale) + ", must be normal and above 0");
  if (!(a.lo <= a.hi))
    return fail(Code::kInvalidArgument, "clamp from " + std::to_string(a.lo) + " to " + std::to_string(a.hi) + " is empty");
  return {};
}

Types infer_matmul(const InferInput& in) {
  const OperandView &a = in.in[0], &b = in.in[1];
  const auto& attrs = std::get<MatMulAttrs>(in.attrs);
  LATHE_CHECK_OK(check_attrs(attrs));
  LATHE_CHECK_OK(want_real(a, "first input"));
  LATHE_CHECK_OK(want_same_kind(a, b, "second input"));
  for (const OperandView* v : {&a, &b}) {
    if (v->type->dims.size() < 2)
      return fail(Code::kInvalidArgument, "an input has rank " + std::to_string(v->type->dims.size()) + ", must have at least 2");
  }
  LATHE_TRY(const std::vector<Dim> left, in_order(a.type->dims, attrs.a_perm, "a"));
  LATHE_TRY(const std::vector<Dim> right, in_order(b.type->dims, attrs.b_perm, "b"));
  const Dim k = right[right.size() - 2];
  if (in.dims.never_equal(left.back(), k))
    return fail(Code::kInvalidArgument,
                "second input has " + in.dims.text(k) + " rows, first has " + in.dims.text(left.back()) + " columns");
  LATHE_TRY(std::vector<Dim> out,
            broadcast(in.dims, std::span(left).first(left.size() - 2), std::span(right).first(right.size() - 2)));
  out.push_back(left[left.size() - 2]);
  out.push_back(right.back());
  LATHE_TRY(out, in_order(out, attrs.y_perm, "y"));
  return result({a.type->dtype, std::move(out)}, is_quantized(a));
}

Dim macs_matmul(const InferInput& in, std::span<const TensorType> out) {
  return in.dims.mul(product(in.dims, out[0].dims), in.in[0].type->dims.back());
}

// Where axis i of the transposed operand or result lies before.
size_t place(const Ints& perm, size_t i) { return perm.count == 0 ? i : static_cast<size_t>(perm[static_cast<int32_t>(i)]); }

// Batch axes align from the last; one of extent 1 serves all of the other.
void link_batch(Links& l, size_t operand, const Ints& perm, const std::vector<size_t>& y_place) {
  const size_t rank = l.rank(operand), missing = y_place.size() - rank;
  for (size_t i = 0; i + 2 < rank; ++i) {
    const AxisRef from = in_axis(operand, place(perm, i)), to = out_axis(y_place[missing + i]);
    if (l.dim(from) != l.dim(to) && l.dims.is(l.dim(from), 1)) l.untouched(from);
    else l.same(from, to);
  }
}

void link_matmul(Links& l) {
  const auto& a = std::get<MatMulAttrs>(l.attrs);
  const size_t ra = l.rank(0), rb = l.rank(1), ry = l.out[0].dims.size();
  std::vector<size_t> y_place(ry);  // of axis i of the product, in the result: y.dims[j] = product.dims[y_perm[j]]
  for (size_t j = 0; j < ry; ++j) y_place[place(a.y_perm, j)] = j;
  link_batch(l, 0, a.a_perm, y_place);
  link_batch(l, 1, a.b_perm, y_place);
  for (size_t i = 0; i + 2 < ry; ++i) {
    const AxisRef y = out_axis(y_place[i]);
    const size_t in_a = i + ra - ry, in_b = i + rb - ry;  // wraps where the operand has no such axis
    if (in_a >= ra || in_b >= rb) continue;
    if (l.dim(in_axis(0, place(a.a_perm, in_a))) == l.dim(in_axis(1, place(a.b_perm, in_b)))) l.batched(y);
  }
  l.makes(in_axis(0, place(a.a_perm, ra - 2)), out_axis(y_place[ry - 2]));
  l.makes(in_axis(1, place(a.b_perm, rb - 1)), out_axis(y_place[ry - 1]));
  const AxisRef k_a = in_axis(0, place(a.a_perm, ra - 1)), k_b = in_axis(1, place(a.b_perm, rb - 2));
  l.same(k_a, k_b);
  l.reduced(k_a);
  l.reduced(k_b);
  if (rb == 2) l.absorbs({.bias = kNoBias, .out_axis = static_cast<uint32_t>(place(a.b_perm, 1)), .in_axis = k_b.axis});
}

}  // namespace

constinit const OpDef kMatMul = {
    .op = Op::kMatMul,
    .min_inputs = 2,
    .max_inputs = 2,
    .outputs = 1,
    .infer = infer_matmul,
    .quant_in = {{QuantRole::kActivation}, {QuantRole::kSymmetric}},
    .quant_out = {QuantRole::kActivation},
    .has_s8 = true,
    .half = HalfForm::kNative,
    .macs = macs_matmul,
    .links = link_matmul,
};

}  // namespace lathe::ops
