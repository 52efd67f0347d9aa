// MaxPool2d, AvgPool2d: windows over x [n,h,w,c].
#include "graph/links.h"
#include "graph/ops/table.h"
#include "graph/ops/typing.h"

namespace lathe::ops {
namespace {

Types infer_pool(const InferInput& in) {
  const auto& a = std::get<Pool2dAttrs>(in.attrs);
  const OperandView& x = in.in[0];
  LATHE_CHECK_OK(want_real(x, "input"));
  LATHE_CHECK_OK(want_rank(x, 4, "input"));
  std::vector<Dim> out = x.type->dims;
  for (size_t i = 0; i < 2; ++i) {
    LATHE_TRY(out[1 + i], pooled_extent(in.dims, a, i, x.type->dims[1 + i]));
  }
  return result({x.type->dtype, std::move(out)}, is_quantized(x));
}

void link_pool(Links& l) {
  for (const size_t axis : {0, 3}) l.same(in_axis(0, axis), out_axis(axis));
}

}  // namespace

// A maximum is one of its inputs: the result keeps their parameters.
constinit const OpDef kMaxPool2d = {
    .op = Op::kMaxPool2d,
    .min_inputs = 1,
    .max_inputs = 1,
    .outputs = 1,
    .infer = infer_pool,
    .quant_in = {{QuantRole::kActivation}},
    .quant_out = {QuantRole::kSameAs, -1, 0},
    .has_s8 = true,
    .half = HalfForm::kNative,
    .links = link_pool,
};

constinit const OpDef kAvgPool2d = {
    .op = Op::kAvgPool2d,
    .min_inputs = 1,
    .max_inputs = 1,
    .outputs = 1,
    .infer = infer_pool,
    .quant_in = {{QuantRole::kActivation}},
    .quant_out = {QuantRole::kActivation},
    .has_s8 = true,
    .half = HalfForm::kNative,
    .links = link_pool,
};

}  // namespace lathe::ops
