// FullyConnected: x [.., k], w [n,k], bias* [n], residual* of the result's shape [.., n].
#include "graph/ops/table.h"
#include "graph/ops/typing.h"

namespace lathe::ops {
namespace {

Types infer_fully_connected(const InferInput& in) {
  const OperandView &x = in.in[0], &w = in.in[1];
  LATHE_CHECK_OK(want_real(x, "input"));
  if (x.type->dims.empty()) return fail(Code::kInvalidArgument, "input has rank 0, must have at least 1");
  LATHE_CHECK_OK(want_rank(w, 2, "weight"));
  LATHE_CHECK_OK(want_same_kind(x, w, "weight"));
  if (in.dims.never_equal(w.type->dims[1], x.type->dims.back()))
    return fail(Code::kInvalidArgument, "weight has " + in.dims.text(w.type->dims[1]) + " input features, input has " +
                                            in.dims.text(x.type->dims.back()));
  std::vector<Dim> out = x.type->dims;
  out.back() = w.type->dims[0];
  LATHE_CHECK_OK(check_epilogue(in, out));
  return result({x.type->dtype, std::move(out)}, is_quantized(x));
}

Dim macs_fully_connected(const InferInput& in, std::span<const TensorType> out) {
  return in.dims.mul(product(in.dims, out[0].dims), in.in[1].type->dims[1]);
}

}  // namespace

constinit const OpDef kFullyConnected = {
    .op = Op::kFullyConnected,
    .min_inputs = 2,
    .max_inputs = 4,
    .outputs = 1,
    .infer = infer_fully_connected,
    .quant_in = {{QuantRole::kActivation}, {QuantRole::kWeight, 0}, {QuantRole::kBias}, {QuantRole::kActivation}},
    .quant_out = {QuantRole::kActivation},
    .has_s8 = true,
    .macs = macs_fully_connected,
};

}  // namespace lathe::ops
