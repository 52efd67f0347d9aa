// Lstm, Gru and Rnn: one direction of a recurrent layer, time before batch. The product of the inputs with their weights is a
// FullyConnected or MatMul before it, so that it is one large product for all steps; with G gates (4, 3, 1) and n hidden values:
//
//   x [steps, batch, G n]  that product with its bias: gates in ONNX's order (LSTM i o f c, GRU z r h)
//   r [n, G n]             recurrent weights
//   bias* [G n]            added to the recurrent product
//   h* [batch, n]          state before the first step; zeros if missing
//   lengths* [batch] s32   steps of each sequence: later ones give zeros and leave the state alone
//   Lstm only: c* [batch, n], peepholes* [3 n] (i o f)
//
// Results: y [steps, batch, n], the state after the last step, and for Lstm the cell state.
#include "graph/ops/table.h"
#include "graph/ops/typing.h"

namespace lathe::ops {
namespace {

constexpr size_t kX = 0, kR = 1, kBias = 2, kState = 3, kLengths = 4, kCell = 5, kPeepholes = 6;

Result<void> check_attrs(const RecurrentAttrs& a) {
  for (int32_t f : a.functions)
    if (f < 0 || f >= kCellFunctions) return fail(Code::kInvalidArgument, "there is no cell function " + std::to_string(f));
  if (!(a.clip >= 0)) return fail(Code::kInvalidArgument, "clip is " + std::to_string(a.clip) + ", must be at least 0");
  return {};
}

// Operand i, if it is there, is of this type.
Result<void> want(const InferInput& in, size_t i, DType dtype, const std::vector<Dim>& dims, const char* what) {
  if (i >= in.in.size() || !in.in[i]) return {};
  const TensorType& type = *in.in[i].type;
  if (type.dtype != dtype)
    return fail(Code::kInvalidArgument, std::string(what) + " is " + dtype_name(type.dtype) + ", must be " + dtype_name(dtype));
  return agree_all(in.dims, dims, type.dims, what);
}

template <int64_t kGates>
Types infer_recurrent(const InferInput& in) {
  LATHE_CHECK_OK(check_attrs(std::get<RecurrentAttrs>(in.attrs)));
  const OperandView &x = in.in[kX], &r = in.in[kR];
  LATHE_CHECK_OK(want_rank(x, 3, "input"));
  LATHE_CHECK_OK(want_rank(r, 2, "recurrent weight"));
  if (x.type->dtype != DType::kF32)
    return fail(Code::kInvalidArgument, std::string("input is ") + dtype_name(x.type->dtype) + ", must be f32");
  const Dim steps = x.type->dims[0], batch = x.type->dims[1], n = r.type->dims[0];
  const Dim width = in.dims.mul(in.dims.constant(kGates), n);
  LATHE_TRY(const Dim unused, agree(in.dims, width, x.type->dims[2], "last dim of the input"));
  (void)unused;
  LATHE_CHECK_OK(want(in, kR, DType::kF32, {n, width}, "recurrent weight"));
  LATHE_CHECK_OK(want(in, kBias, DType::kF32, {width}, "bias"));
  LATHE_CHECK_OK(want(in, kState, DType::kF32, {batch, n}, "state"));
  LATHE_CHECK_OK(want(in, kLengths, DType::kS32, {batch}, "lengths"));
  LATHE_CHECK_OK(want(in, kCell, DType::kF32, {batch, n}, "cell state"));
  LATHE_CHECK_OK(want(in, kPeepholes, DType::kF32, {in.dims.mul(in.dims.constant(3), n)}, "peepholes"));
  std::vector<Inferred> out{{.type = {DType::kF32, {steps, batch, n}}}, {.type = {DType::kF32, {batch, n}}}};
  if (kGates == 4) out.push_back(out[1]);
  return out;
}

Dim macs_recurrent(const InferInput& in, std::span<const TensorType> out) {
  return in.dims.mul(product(in.dims, out[0].dims), in.in[kR].type->dims[1]);
}

constexpr OpDef recurrent(Op op, uint8_t max_inputs, uint8_t outputs, Types (*infer)(const InferInput&)) {
  OpDef def{};
  def.op = op;
  def.min_inputs = 2;
  def.max_inputs = max_inputs;
  def.outputs = outputs;
  def.infer = infer;
  def.quant_in[kLengths] = {QuantRole::kInteger};
  def.macs = macs_recurrent;
  return def;
}

}  // namespace

constinit const OpDef kLstm = recurrent(Op::kLstm, 7, 3, infer_recurrent<4>);
constinit const OpDef kGru = recurrent(Op::kGru, 5, 2, infer_recurrent<3>);
constinit const OpDef kRnn = recurrent(Op::kRnn, 5, 2, infer_recurrent<1>);

}  // namespace lathe::ops
