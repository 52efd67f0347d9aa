// MaskedSoftmax: scores [.., m, n] of m queries against n keys; mask* (bool: true is seen; or float, added) that broadcasts to
// them; lengths* [batch] s64 of the key sequences, batch being the first axis. A row that sees nothing gives zeros.
//
// LinearAttention: query [batch, steps, heads * dk], key and value of kv_heads heads of dk and dv; state* [batch, kv_heads, dk,
// dv] before the first step; decay* (per key head, or per row of its state) and beta* (per key head, or one) for every step.
// Results: [batch, steps, heads * dv] and the state after the last step. The recurrence stands in
// runtime/exec/linear_attention.cc.
#include "graph/links.h"
#include "graph/ops/table.h"
#include "graph/ops/typing.h"

namespace lathe::ops {
namespace {

Types infer_masked_softmax(const InferInput& in) {
  const auto& a = std::get<MaskedSoftmaxAttrs>(in.attrs);
  const TensorType& x = *in.in[0].type;
  if (x.dtype != DType::kF32)
    return fail(Code::kInvalidArgument, std::string("scores are ") + dtype_name(x.dtype) + ", must be f32");
  if (x.dims.size() < 2)
    return fail(Code::kInvalidArgument, "scores have rank " + std::to_string(x.dims.size()) + ", must have at least 2");
  if (a.left < -1 || a.right < -1) return fail(Code::kInvalidArgument, "a side of the window is below -1");
  if (in.in.size() > 1 && in.in[1]) {
    const TensorType& mask = *in.in[1].type;
    if (mask.dtype != DType::kBool && mask.dtype != DType::kF32)
      return fail(Code::kInvalidArgument, std::string("mask is ") + dtype_name(mask.dtype) + ", must be bool or f32");
    LATHE_TRY(const auto all, broadcast(in.dims, x.dims, mask.dims));
    if (all.size() != x.dims.size()) return fail(Code::kInvalidArgument, "mask has a higher rank than the scores");
    LATHE_CHECK_OK(agree_all(in.dims, x.dims, all, "scores with their mask"));
  }
  if (in.in.size() > 2 && in.in[2]) {
    const TensorType& lengths = *in.in[2].type;
    if (lengths.dtype != DType::kS64)
      return fail(Code::kInvalidArgument, std::string("lengths are ") + dtype_name(lengths.dtype) + ", must be s64");
    const Dim batch[] = {x.dims[0]};
    LATHE_CHECK_OK(agree_all(in.dims, batch, lengths.dims, "lengths"));
  }
  return result(x, false);
}

Types infer_linear_attention(const InferInput& in) {
  const auto& a = std::get<LinearAttentionAttrs>(in.attrs);
  if (a.q_heads < 1 || a.kv_heads < 1 || a.q_heads % a.kv_heads != 0)
    return fail(Code::kInvalidArgument,
                std::to_string(a.q_heads) + " query heads are not a multiple of " + std::to_string(a.kv_heads));
  static const char* const kNames[] = {"query", "key", "value", "state", "decay", "beta"};
  for (size_t i = 0; i < in.in.size(); ++i) {
    if (!in.in[i]) continue;
    if (in.in[i].type->dtype != DType::kF32)
      return fail(Code::kInvalidArgument, std::string(kNames[i]) + " is " + dtype_name(in.in[i].type->dtype) + ", must be f32");
    LATHE_CHECK_OK(want_rank(in.in[i], i == 3 ? 4 : 3, kNames[i]));
  }
  const std::vector<Dim>&q = in.in[0].type->dims, &v = in.in[2].type->dims;
  const Dim q_heads = in.dims.constant(a.q_heads), kv_heads = in.dims.constant(a.kv_heads);
  const Dim dk = in.dims.floordiv(q[2], q_heads), dv = in.dims.floordiv(v[2], kv_heads);
  LATHE_CHECK_OK(agree_all(in.dims, std::vector<Dim>{q[0], q[1], in.dims.mul(kv_heads, dk)}, in.in[1].type->dims, "key"));
  LATHE_CHECK_OK(agree_all(in.dims, std::vector<Dim>{q[0], q[1], in.dims.mul(kv_heads, dv)}, v, "value"));
  const std::vector<Dim> state{q[0], kv_heads, dk, dv};
  if (in.in.size() > 3 && in.in[3]) LATHE_CHECK_OK(agree_all(in.dims, state, in.in[3].type->dims, "state"));
  return std::vector<Inferred>{{.type = {DType::kF32, {q[0], q[1], in.dims.mul(q_heads, dv)}}}, {.type = {DType::kF32, state}}};
}

void link_masked_softmax(Links& l) {
  const size_t rank = l.rank(0);
  for (size_t axis = 0; axis + 2 < rank; ++axis) l.same(in_axis(0, axis), out_axis(axis));
  if (!l.has(1)) return;
  const size_t missing = rank - l.rank(1);
  for (size_t axis = 0; missing + axis + 2 < rank; ++axis) {
    const AxisRef mask = in_axis(1, axis);
    if (l.dims.is(l.dim(mask), 1)) l.untouched(mask);
    else l.same(mask, out_axis(missing + axis));
  }
}

}  // namespace

constinit const OpDef kMaskedSoftmax = {
    .op = Op::kMaskedSoftmax,
    .min_inputs = 1,
    .max_inputs = 3,
    .outputs = 1,
    .infer = infer_masked_softmax,
    .quant_in = {{QuantRole::kFloatOnly}, {QuantRole::kFloatOnly}, {QuantRole::kInteger}},
    .links = link_masked_softmax,
};

constinit const OpDef kLinearAttention = {
    .op = Op::kLinearAttention,
    .min_inputs = 3,
    .max_inputs = 6,
    .outputs = 2,
    .infer = infer_linear_attention,
};

}  // namespace lathe::ops
