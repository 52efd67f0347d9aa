// NonMaxSuppression: boxes [batch, n, 4], scores [batch, classes, n], then, each one element that may be missing: the most boxes
// per class (s64; missing: none), the overlap that a box may have with one taken before, the score that it must have more than.
// Results: rows (batch, class, box) as many as there could be, those that there are first, and their number.
#include "graph/ops/table.h"
#include "graph/ops/typing.h"

namespace lathe::ops {
namespace {

Types infer_nms(const InferInput& in) {
  const char* names[] = {"boxes", "scores", "most boxes", "overlap", "least score"};
  for (size_t i = 0; i < in.in.size(); ++i) {
    if (!in.in[i]) continue;
    const DType wanted = i == 2 ? DType::kS64 : DType::kF32;
    if (in.in[i].type->dtype != wanted)
      return fail(Code::kInvalidArgument,
                  std::string(names[i]) + " is " + dtype_name(in.in[i].type->dtype) + ", must be " + dtype_name(wanted));
    if (i < 2) LATHE_CHECK_OK(want_rank(in.in[i], 3, names[i]));
    else if (!in.dims.is(product(in.dims, in.in[i].type->dims), 1))
      return fail(Code::kInvalidArgument, std::string(names[i]) + " has several elements, must have 1");
  }
  const std::vector<Dim>&boxes = in.in[0].type->dims, &scores = in.in[1].type->dims;
  const Dim wanted[] = {scores[0], scores[2], in.dims.constant(4)};
  LATHE_CHECK_OK(agree_all(in.dims, wanted, boxes, "boxes"));
  Dim most = scores[2];
  if (in.in.size() > 2 && in.in[2] && in.in[2].contents != nullptr && in.in[2].contents->size() == 1)
    most = in.dims.min(most, (*in.in[2].contents)[0]);
  if (in.dims.lower_bound(most).value_or(0) < 0) most = in.dims.constant(0);
  const Dim rows = in.dims.mul(in.dims.mul(scores[0], scores[1]), most);
  return std::vector<Inferred>{{.type = {DType::kS64, {rows, in.dims.constant(3)}}},
                               {.type = {DType::kS64, {in.dims.constant(1)}}}};
}

}  // namespace

constinit const OpDef kNonMaxSuppression = {
    .op = Op::kNonMaxSuppression,
    .min_inputs = 2,
    .max_inputs = 5,
    .outputs = 2,
    .infer = infer_nms,
    .quant_in = {{QuantRole::kFloatOnly}, {QuantRole::kFloatOnly}, {QuantRole::kInteger}},
};

}  // namespace lathe::ops
