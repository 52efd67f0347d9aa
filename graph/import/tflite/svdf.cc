// SVDF: a layer over a window of time whose weights are sums of `rank` products of a vector over features and one over time. Its
// state, the last results of the feature filters, lives in a variable from one run to the next:
//
//   state[b, f] = state[b, f] shifted by one, then x[b] . features[f]
//   y[b, u] = f(sum over the rank filters f of unit u of state[b, f] . time[f] + bias[u])
//
// Float layers with INT8 weights quantize their input row by row. The integer form computes with real numbers between integer
// operands and results; the state's newest column goes through its 16-bit grid.
#include "graph/import/tflite/importer.h"
#include "graph/import/tflite/layers.h"

namespace lathe::tflite {
namespace {

enum Operand : size_t { kX, kFeatures, kTime, kBias, kState };

struct Sizes {
  int64_t batch, filters, units, rank, memory;
};

Result<Sizes> read_sizes(NodeImport& n, int64_t rank, ValueId x, ValueId features, ValueId time) {
  for (const ValueId v : {x, features, time})
    if (n.rank(v) != 2) return fail(Code::kInvalidArgument, "an operand has rank " + std::to_string(n.rank(v)) + ", must be 2");
  const auto batch = n.dim(x, 0), filters = n.dim(features, 0), memory = n.dim(time, 1);
  if (!batch || !filters || !memory || *filters < 1 || *memory < 1)
    return fail(Code::kUnsupported, "its dims are not known; --shape can fix them");
  if (n.dim(time, 0) != filters || rank < 1 || *filters % rank != 0)
    return fail(Code::kInvalidArgument, "rank " + std::to_string(rank) + ", " + std::to_string(*filters) +
                                            " filters and time weights of other dims");
  const FileTensor& state = n.input(kState);
  if (state.dims.size() != 2 || state.dims[0] != *batch || state.dims[1] != *memory * *filters)
    return fail(Code::kInvalidArgument, "the state does not have " + std::to_string(*batch) + " x " +
                                            std::to_string(*memory * *filters) + " elements");
  return Sizes{*batch, *filters, *filters / rank, rank, *memory};
}

Result<ValueId> real_constant_of(NodeImport& n, ValueId v, const char* tag) {
  if (n.type(v).dtype == DType::kF32) return v;
  Builder& b = n.builder();
  LATHE_TRY(const std::vector<float> elements, b.real_elements(v));
  return b.graph.add_constant(b.value_name(n.name() + ":" + tag), {DType::kF32, n.type(v).dims}, Constant::of(elements));
}

// The newest column [batch, filters] of the state.
Result<ValueId> newest(NodeImport& n, ValueId x, ValueId features, bool asymmetric_inputs) {
  if (is_dynamic(n, x, features, asymmetric_inputs))
    return n.emit("features", Op::kDynamicFullyConnected, DynamicFullyConnectedAttrs{1}, {x, features});
  LATHE_TRY(const ValueId weights, real_constant_of(n, features, "weights"));
  LATHE_TRY(const ValueId real_x, n.real(x));
  LATHE_TRY(const ValueId y, n.emit("features", Op::kFullyConnected, FullyConnectedAttrs{}, {real_x, weights}));
  LATHE_TRY(const auto grid, quant_of(n.input(kState)));
  if (!grid) return y;
  LATHE_TRY(const ValueId q, n.emit("quantized", Op::kQuantize, NoAttrs{}, {y}, grid));
  return n.emit("column", Op::kDequantize, NoAttrs{}, {q});
}

// An integer bias counts in the scale of the state times that of the time weights.
Result<ValueId> real_bias(NodeImport& n, ValueId time) {
  LATHE_TRY(const ValueId bias, n.value(kBias));
  if (n.type(bias).dtype == DType::kF32) return bias;
  const Value& value = n.builder().graph.value(bias);
  LATHE_TRY(const auto grid, quant_of(n.input(kState)));
  const bool known = value.kind == ValueKind::kConstant && value.type.dtype == DType::kS32;
  if (!known || !grid || !n.quant(time) || n.quant(time)->axis != -1)
    return fail(Code::kUnsupported, "an integer bias without scales per tensor");
  const float scale = grid->scales[0] * n.quant(time)->scales[0];
  std::vector<float> elements;
  for (const int32_t v : value.constant.as<int32_t>()) elements.push_back(static_cast<float>(v) * scale);
  Builder& b = n.builder();
  return b.graph.add_constant(b.value_name(n.name() + ":bias"), {DType::kF32, value.type.dims}, Constant::of(elements));
}

// The state [batch, filters, memory] after this step.
Result<ValueId> shifted(NodeImport& n, ValueId state, ValueId column, const Sizes& s) {
  const Dim batch = n.dims().constant(s.batch), filters = n.dims().constant(s.filters), one = n.dims().constant(1);
  LATHE_TRY(const ValueId last, n.reshaped("last", column, {batch, filters, one}));
  if (s.memory == 1) return last;
  LATHE_TRY(const ValueId old, n.reshaped("old", state, {batch, filters, n.dims().constant(s.memory)}));
  LATHE_TRY(const ValueId kept,
            n.emit("kept", Op::kSlice, SliceAttrs{Ints{1, {2}}, Ints{1, {1}}, Ints{1, {INT32_MAX}}, Ints{1, {1}}}, {old}));
  return n.emit("window", Op::kConcat, AxisAttrs{2}, {kept, last});
}

}  // namespace

Result<void> import_svdf(NodeImport& n) {
  const auto* o = n.options().options_as_Svdf();
  if (o == nullptr) return fail(Code::kCorrupt, "its options are missing");
  LATHE_TRY(const ActivationBounds bounds, activation_bounds(o->activation()));
  LATHE_TRY(const ValueId x, n.value(kX));
  LATHE_TRY(const ValueId features, n.value(kFeatures));
  LATHE_TRY(const ValueId time, n.value(kTime));
  if (!n.has_input(kState)) return fail(Code::kInvalidArgument, "no state");
  LATHE_TRY(const Sizes s, read_sizes(n, o->rank(), x, features, time));
  LATHE_TRY(const ValueId state, n.builder().state(n.op().inputs[kState]));
  LATHE_TRY(const ValueId column, newest(n, x, features, o->asymmetric_inputs()));
  LATHE_TRY(const ValueId window, shifted(n, state, column, s));
  const ReduceAttrs last{Ints{1, {2}}, 0};
  LATHE_TRY(const ValueId weights, real_constant_of(n, time, "time"));
  LATHE_TRY(const ValueId products, n.emit("products", Op::kMul, BinaryAttrs{}, {window, weights}));
  LATHE_TRY(ValueId y, n.emit("filters", Op::kReduceSum, last, {products}));
  const Dim batch = n.dims().constant(s.batch);
  if (s.rank > 1) {
    LATHE_TRY(y, n.reshaped("ranks", y, {batch, n.dims().constant(s.units), n.dims().constant(s.rank)}));
    LATHE_TRY(y, n.emit("units", Op::kReduceSum, last, {y}));
  }
  LATHE_TRY(const ValueId flat, n.reshaped("state", window, {batch, n.dims().constant(s.memory * s.filters)}));
  LATHE_CHECK_OK(n.assign("state", state, flat));
  if (n.has_input(kBias)) {
    LATHE_TRY(const ValueId bias, real_bias(n, time));
    LATHE_TRY(y, n.emit("sum", Op::kAdd, BinaryAttrs{bounds.lo, bounds.hi}, {y, bias}));
  } else {
    LATHE_TRY(y, n.emit("sum", Op::kClamp, ClampAttrs{bounds.lo, bounds.hi}, {y}));
  }
  return n.finish_value(y);
}

}  // namespace lathe::tflite
