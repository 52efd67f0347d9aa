// Recurrent layers, written step by step with the ops of one step. Their state lives in variables from one run to the next.
//
// One step of an LSTM, from the gates z = W x + R h + b, in the order input, forget, output, cell:
//
//   c' = sigmoid(z_f) c + sigmoid(z_i) tanh(z_c),  h' = sigmoid(z_o) tanh(c')
//
// The integer forms compute with real numbers between integer weights and inputs on one side and results on the other: h goes
// through its 8-bit grid after every step, c ends where 16 bits do.
#include <algorithm>

#include "graph/import/tflite/importer.h"

namespace lathe::tflite {
namespace {

// Operands of UNIDIRECTIONAL_SEQUENCE_LSTM; of the four gates in the order of the file: input, forget, cell, output.
constexpr size_t kInputWeights = 1, kRecurrentWeights = 5, kPeepholes = 9, kBiases = 12, kProjection = 16, kOutputState = 18,
                 kCellState = 19, kLayerNorm = 20;
constexpr size_t kGateOrder[] = {0, 1, 3, 2};  // the file's gates in ours
constexpr int64_t kMaxSteps = 1024;            // each is a dozen nodes

class Lstm {
 public:
  Lstm(NodeImport& n, const fbs::SequenceLstmOptions& options) : n_(n), b_(n.builder()), o_(options) {}

  Result<void> import();

 private:
  Result<void> check_form() const;
  Result<void> read_sizes(ValueId x);
  Result<ValueId> gate_weights(size_t first, int64_t columns, const char* tag);
  Result<std::vector<float>> bias_elements(size_t gate, ValueId x) const;
  Result<ValueId> gate_biases(ValueId x);
  Result<ValueId> step(int64_t t, ValueId gates);
  Result<ValueId> part(const std::string& tag, ValueId v, size_t axis, int64_t begin, int64_t end);
  Result<ValueId> on_grid(const std::string& tag, ValueId h);

  NodeImport& n_;
  Builder& b_;
  const fbs::SequenceLstmOptions& o_;
  size_t time_axis_ = 1;
  int64_t batch_ = 0, steps_ = 0, inputs_ = 0, units_ = 0;
  ValueId recurrent_ = kNoId, h_ = kNoId, c_ = kNoId;
  ActivationBounds cell_;      // where the cell's state ends
  std::optional<Quant> grid_;  // of h, if it is an integer
};

Result<void> Lstm::check_form() const {
  if (o_.activation() != fbs::Activation_TANH) return fail(Code::kUnsupported, "an activation other than tanh");
  if (o_.diagonal()) return fail(Code::kUnsupported, "diagonal recurrent weights");
  if (!n_.has_input(kInputWeights)) return fail(Code::kUnsupported, "coupled input and forget gates");
  for (size_t i = 0; i < 3; ++i)
    if (n_.has_input(kPeepholes + i)) return fail(Code::kUnsupported, "peephole connections");
  for (size_t i = 0; i < 4; ++i)
    if (n_.has_input(kLayerNorm + i)) return fail(Code::kUnsupported, "layer normalization of the gates");
  if (n_.has_input(kProjection) || n_.has_input(kProjection + 1)) return fail(Code::kUnsupported, "a projection");
  for (const size_t i : {kOutputState, kCellState})
    if (!n_.has_input(i)) return fail(Code::kInvalidArgument, "no state");
  return {};
}

Result<void> Lstm::read_sizes(ValueId x) {
  if (n_.rank(x) != 3)
    return fail(Code::kUnsupported, "an input of rank " + std::to_string(n_.rank(x)) + ", only 3 is supported");
  time_axis_ = o_.time_major() ? 0 : 1;
  const auto batch = n_.dim(x, 1 - time_axis_), steps = n_.dim(x, time_axis_), inputs = n_.dim(x, 2);
  if (!batch || !steps || !inputs) return fail(Code::kUnsupported, "the dims of its input are not known; --shape can fix them");
  if (*steps < 1 || *steps > kMaxSteps)
    return fail(Code::kUnsupported, std::to_string(*steps) + " steps, at most " + std::to_string(kMaxSteps) + " are supported");
  const FileTensor& h = n_.input(kOutputState);
  if (h.dims.size() != 2 || h.dims[0] != *batch || h.dims[1] < 1)
    return fail(Code::kInvalidArgument, "the output state does not fit the input");
  if (!std::equal(h.dims.begin(), h.dims.end(), n_.input(kCellState).dims.begin(), n_.input(kCellState).dims.end()))
    return fail(Code::kInvalidArgument, "output state and cell state have different dims");
  batch_ = *batch, steps_ = *steps, inputs_ = *inputs, units_ = h.dims[1];
  return {};
}

// The four gates' weights [units, columns], one below the other, as float.
Result<ValueId> Lstm::gate_weights(size_t first, int64_t columns, const char* tag) {
  std::vector<float> all;
  for (const size_t gate : kGateOrder) {
    LATHE_TRY(const ValueId w, n_.value(first + gate));
    if (n_.rank(w) != 2 || n_.dim(w, 0) != units_ || n_.dim(w, 1) != columns)
      return fail(Code::kInvalidArgument,
                  "a weight does not have " + std::to_string(units_) + " x " + std::to_string(columns) + " elements");
    LATHE_TRY(const std::vector<float> part, b_.real_elements(w));
    all.insert(all.end(), part.begin(), part.end());
  }
  return b_.graph.add_constant(b_.value_name(n_.name() + ":" + tag),
                               {DType::kF32, {n_.dims().constant(4 * units_), n_.dims().constant(columns)}}, Constant::of(all));
}

// An integer bias counts in the scale of the input times that of the gate's input weights.
Result<std::vector<float>> Lstm::bias_elements(size_t gate, ValueId x) const {
  LATHE_TRY(const ValueId b, n_.value(kBiases + gate));
  const Value& value = b_.graph.value(b);
  if (n_.rank(b) != 1 || n_.dim(b, 0) != units_)
    return fail(Code::kInvalidArgument, "a bias does not have " + std::to_string(units_) + " elements");
  if (value.type.dtype != DType::kS32 || value.kind != ValueKind::kConstant) return b_.real_elements(b);
  LATHE_TRY(const ValueId w, n_.value(kInputWeights + gate));
  if (!n_.quant(x) || !n_.quant(w) || n_.quant(w)->axis != -1)
    return fail(Code::kUnsupported, "an integer bias without scales per tensor");
  const float scale = n_.quant(x)->scales[0] * n_.quant(w)->scales[0];
  std::vector<float> out;
  for (const int32_t v : value.constant.as<int32_t>()) out.push_back(static_cast<float>(v) * scale);
  return out;
}

Result<ValueId> Lstm::gate_biases(ValueId x) {
  std::vector<float> all;
  for (const size_t gate : kGateOrder) {
    LATHE_TRY(const std::vector<float> part, bias_elements(gate, x));
    all.insert(all.end(), part.begin(), part.end());
  }
  return b_.graph.add_constant(b_.value_name(n_.name() + ":bias"), {DType::kF32, {n_.dims().constant(4 * units_)}},
                               Constant::of(all));
}

Result<ValueId> Lstm::part(const std::string& tag, ValueId v, size_t axis, int64_t begin, int64_t end) {
  if (n_.dim(v, axis) == end - begin) return v;
  SliceAttrs a;
  a.axes.count = a.begins.count = a.ends.count = a.steps.count = 1;
  a.axes.values[0] = static_cast<int32_t>(axis);
  a.begins.values[0] = static_cast<int32_t>(begin);
  a.ends.values[0] = static_cast<int32_t>(end);
  a.steps.values[0] = 1;
  return n_.emit(tag, Op::kSlice, a, {v});
}

Result<ValueId> Lstm::on_grid(const std::string& tag, ValueId h) {
  if (!grid_) return h;
  LATHE_TRY(const ValueId q, n_.emit(tag + "quantized", Op::kQuantize, NoAttrs{}, {h}, grid_));
  return n_.emit(tag + "h", Op::kDequantize, NoAttrs{}, {q});
}

// Step t from W x + b of all steps; gives h with a time axis of 1.
Result<ValueId> Lstm::step(int64_t t, ValueId gates) {
  const std::string tag = "step" + std::to_string(t) + ":";
  const Dim batch = n_.dims().constant(batch_), one = n_.dims().constant(1), units = n_.dims().constant(units_);
  LATHE_TRY(ValueId from_x, part(tag + "x", gates, time_axis_, t, t + 1));
  LATHE_TRY(from_x, n_.reshaped(tag + "row", from_x, {batch, n_.dims().constant(4 * units_)}));
  LATHE_TRY(const ValueId from_h, n_.emit(tag + "recurrent", Op::kFullyConnected, FullyConnectedAttrs{}, {h_, recurrent_}));
  LATHE_TRY(const ValueId z, n_.emit(tag + "z", Op::kAdd, BinaryAttrs{}, {from_h, from_x}));
  LATHE_TRY(const ValueId z_gates, part(tag + "zg", z, 1, 0, 3 * units_));
  LATHE_TRY(const ValueId open, n_.emit(tag + "gates", Op::kSigmoid, NoAttrs{}, {z_gates}));
  LATHE_TRY(const ValueId z_cell, part(tag + "zc", z, 1, 3 * units_, 4 * units_));
  LATHE_TRY(const ValueId fresh, n_.emit(tag + "fresh", Op::kTanh, NoAttrs{}, {z_cell}));
  ValueId gate[3];
  for (int64_t i = 0; i < 3; ++i) {
    LATHE_TRY(gate[i], part(tag + "gate" + std::to_string(i), open, 1, i * units_, (i + 1) * units_));
  }
  LATHE_TRY(const ValueId added, n_.emit(tag + "added", Op::kMul, BinaryAttrs{}, {gate[0], fresh}));
  LATHE_TRY(const ValueId kept, n_.emit(tag + "kept", Op::kMul, BinaryAttrs{}, {gate[1], c_}));
  LATHE_TRY(c_, n_.emit(tag + "c", Op::kAdd, BinaryAttrs{cell_.lo, cell_.hi}, {kept, added}));
  LATHE_TRY(const ValueId squashed, n_.emit(tag + "tanh", Op::kTanh, NoAttrs{}, {c_}));
  LATHE_TRY(const ValueId h, n_.emit(tag + "hidden", Op::kMul, BinaryAttrs{}, {gate[2], squashed}));
  LATHE_TRY(h_, on_grid(tag, h));
  std::vector<Dim> dims = {batch, batch, units};
  dims[time_axis_] = one;
  return n_.reshaped(tag + "output", h_, dims);
}

Result<void> Lstm::import() {
  LATHE_CHECK_OK(check_form());
  LATHE_TRY(const ValueId x, n_.value(0));
  LATHE_CHECK_OK(read_sizes(x));
  const float clip = o_.cell_clip();
  if (clip > 0) cell_ = {-clip, clip};
  LATHE_TRY(const auto cell_grid, quant_of(n_.input(kCellState)));
  if (cell_grid) {
    const float scale = cell_grid->scales[0];
    cell_ = {std::max(cell_.lo, static_cast<float>(cell_grid->qmin) * scale),
             std::min(cell_.hi, static_cast<float>(cell_grid->qmax) * scale)};
  }
  LATHE_TRY(grid_, quant_of(n_.output()));
  LATHE_TRY(const ValueId weights, gate_weights(kInputWeights, inputs_, "weights"));
  LATHE_TRY(recurrent_, gate_weights(kRecurrentWeights, units_, "recurrent"));
  LATHE_TRY(const ValueId biases, gate_biases(x));
  LATHE_TRY(const ValueId h_state, b_.state(n_.op().inputs[kOutputState]));
  LATHE_TRY(const ValueId c_state, b_.state(n_.op().inputs[kCellState]));
  h_ = h_state;
  c_ = c_state;
  LATHE_TRY(const ValueId real_x, n_.real(x));
  LATHE_TRY(const ValueId gates, n_.emit("input", Op::kFullyConnected, FullyConnectedAttrs{}, {real_x, weights, biases}));
  std::vector<ValueId> results;
  for (int64_t t = 0; t < steps_; ++t) {
    LATHE_TRY(results.emplace_back(), step(t, gates));
  }
  LATHE_CHECK_OK(n_.assign("output_state", h_state, h_));
  LATHE_CHECK_OK(n_.assign("cell_state", c_state, c_));
  if (results.size() == 1) return n_.finish_value(results[0]);
  LATHE_TRY(results, n_.few_parts(static_cast<int32_t>(time_axis_), std::move(results), {}));
  LATHE_TRY(const ValueId all, n_.emit("all", Op::kConcat, AxisAttrs{static_cast<int32_t>(time_axis_)}, std::move(results)));
  return n_.finish_value(all);
}

}  // namespace

Result<void> import_sequence_lstm(NodeImport& n) {
  const auto* o = n.options().options_as_SequenceLstm();
  if (o == nullptr) return fail(Code::kCorrupt, "its options are missing");
  return Lstm(n, *o).import();
}

}  // namespace lathe::tflite
