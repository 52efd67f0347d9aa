// LSTM layers, written step by step with the ops of one step. Their state lives in variables from one run to the next.
//
// One step, from the gates z = W x + R h + b:
//
//   c' = sigmoid(z_f) c + sigmoid(z_i) tanh(z_c),  h' = P (sigmoid(z_o) tanh(c')) + p
//
// With peepholes z_i and z_f see c, z_o sees c'. With layer normalization b is added after it. Coupled gates have no z_i: what
// the forget gate leaves, comes in. Where there is no projection P, h' is what it would have projected.
//
// The integer forms compute with real numbers between integer weights and inputs on one side and results on the other: h goes
// through its 8-bit grid after every step, c ends where 16 bits do.
#include <algorithm>

#include "graph/import/tflite/importer.h"

namespace lathe::tflite {
namespace {

// Operands; of four gates each, in the order input, forget, cell, output. There are peepholes of all but the cell.
constexpr size_t kInputWeights = 1, kRecurrentWeights = 5, kPeepholes = 9, kBiases = 12, kProjection = 16,
                 kProjectionBias = 17, kOutputState = 18, kCellState = 19, kLayerNorm = 20;
enum Gate : size_t { kInput, kForget, kCell, kOutput };
constexpr size_t kNoPeephole = 3, kPeepholeOf[] = {0, 1, kNoPeephole, 2};
constexpr int64_t kMaxSteps = 1024;           // each is some twenty nodes,
constexpr size_t kStepBytes = size_t{16} << 10;  // which take less than this

struct LstmForm {
  fbs::Activation activation;
  float cell_clip, projection_clip;
  bool is_sequence, time_major;
};

class Lstm {
 public:
  Lstm(NodeImport& n, const LstmForm& form) : n_(n), b_(n.builder()), form_(form) {}

  Result<void> import();

 private:
  bool has_gate(size_t gate) const { return gate != kInput || !coupled_; }
  Result<void> read_form();
  Result<void> read_sizes(ValueId x);
  Result<void> read_projection();
  Result<void> read_vectors();
  Result<ValueId> matrix(size_t operand, int64_t rows, int64_t columns, std::vector<float>& to) const;
  Result<ValueId> gate_weights(size_t first, int64_t columns, const char* tag);
  Result<std::vector<float>> bias_elements(size_t gate, ValueId x) const;
  Result<ValueId> input_product(ValueId x);
  Result<ValueId> vector_constant(size_t operand, const std::string& tag);
  Result<ValueId> activated(const std::string& tag, ValueId v);
  Result<ValueId> gate(const std::string& tag, size_t which, ValueId z);
  Result<ValueId> next_cell(const std::string& tag, ValueId z);
  Result<ValueId> step(int64_t t, ValueId gates);
  Result<ValueId> part(const std::string& tag, ValueId v, size_t axis, int64_t begin, int64_t end);
  Result<ValueId> on_grid(const std::string& tag, ValueId h);
  Result<ValueId> constant(const std::string& tag, std::vector<Dim> dims, const std::vector<float>& elements);
  Dim size(int64_t v) const { return n_.dims().constant(v); }

  NodeImport& n_;
  Builder& b_;
  const LstmForm form_;
  bool coupled_ = false, normalized_ = false;
  size_t time_axis_ = 1;
  int64_t batch_ = 0, steps_ = 1, inputs_ = 0, units_ = 0, outputs_ = 0, gates_ = 4;
  ValueId recurrent_ = kNoId, projection_ = kNoId, projection_bias_ = kNoId, h_ = kNoId, c_ = kNoId;
  ValueId peepholes_[4] = {kNoId, kNoId, kNoId, kNoId}, norms_[4] = {kNoId, kNoId, kNoId, kNoId};
  ValueId norm_biases_[4] = {kNoId, kNoId, kNoId, kNoId};
  ActivationBounds cell_;      // where the cell's state ends
  std::optional<Quant> grid_;  // of h, if it is an integer
};

Result<ValueId> Lstm::constant(const std::string& tag, std::vector<Dim> dims, const std::vector<float>& elements) {
  return b_.graph.add_constant(b_.value_name(n_.name() + ":" + tag), {DType::kF32, std::move(dims)}, Constant::of(elements));
}

Result<void> Lstm::read_form() {
  if (form_.activation != fbs::Activation_TANH) {
    LATHE_TRY(const ActivationBounds bounds, activation_bounds(form_.activation));
    static_cast<void>(bounds);
  }
  coupled_ = !n_.has_input(kInputWeights);
  gates_ = coupled_ ? 3 : 4;
  normalized_ = n_.has_input(kLayerNorm + kForget);
  for (const size_t i : {kOutputState, kCellState})
    if (!n_.has_input(i)) return fail(Code::kInvalidArgument, "no state");
  const float clip = form_.cell_clip;
  if (clip > 0) cell_ = {-clip, clip};
  LATHE_TRY(const auto cell_grid, quant_of(n_.input(kCellState)));
  if (cell_grid) {
    const float scale = cell_grid->scales[0];
    cell_ = {std::max(cell_.lo, static_cast<float>(cell_grid->qmin) * scale),
             std::min(cell_.hi, static_cast<float>(cell_grid->qmax) * scale)};
  }
  LATHE_TRY(grid_, quant_of(n_.output()));
  if (grid_ && normalized_) return fail(Code::kUnsupported, "layer normalization of integers");
  if (grid_ && n_.has_input(kProjectionBias)) return fail(Code::kUnsupported, "an integer projection with a bias");
  return {};
}

Result<void> Lstm::read_sizes(ValueId x) {
  const size_t rank = form_.is_sequence ? 3 : 2;
  if (n_.rank(x) != rank)
    return fail(Code::kUnsupported,
                "an input of rank " + std::to_string(n_.rank(x)) + ", only " + std::to_string(rank) + " is supported");
  time_axis_ = form_.time_major ? 0 : 1;
  const auto batch = n_.dim(x, form_.is_sequence ? 1 - time_axis_ : 0), inputs = n_.dim(x, rank - 1);
  const auto steps = form_.is_sequence ? n_.dim(x, time_axis_) : std::optional<int64_t>(1);
  if (!batch || !steps || !inputs) return fail(Code::kUnsupported, "the dims of its input are not known; --shape can fix them");
  if (*steps < 1 || *steps > kMaxSteps)
    return fail(Code::kUnsupported, std::to_string(*steps) + " steps, at most " + std::to_string(kMaxSteps) + " are supported");
  for (const size_t i : {kOutputState, kCellState}) {
    const FileTensor& state = n_.input(i);
    if (state.dims.size() != 2 || state.dims[0] != *batch || state.dims[1] < 1)
      return fail(Code::kInvalidArgument, "the state '" + std::string(state.name) + "' does not fit the input");
  }
  batch_ = *batch, steps_ = *steps, inputs_ = *inputs;
  outputs_ = n_.input(kOutputState).dims[1], units_ = n_.input(kCellState).dims[1];
  if (outputs_ != units_ && !n_.has_input(kProjection))
    return fail(Code::kInvalidArgument, "output state and cell state have different dims");
  return {};
}

// Appends the elements of a constant matrix, as float.
Result<ValueId> Lstm::matrix(size_t operand, int64_t rows, int64_t columns, std::vector<float>& to) const {
  LATHE_TRY(const ValueId w, n_.value(operand));
  if (n_.rank(w) != 2 || n_.dim(w, 0) != rows || n_.dim(w, 1) != columns)
    return fail(Code::kInvalidArgument,
                "a weight does not have " + std::to_string(rows) + " x " + std::to_string(columns) + " elements");
  LATHE_TRY(const std::vector<float> elements, b_.real_elements(w));
  to.insert(to.end(), elements.begin(), elements.end());
  return w;
}

// The gates' weights [units, columns], one below the other.
Result<ValueId> Lstm::gate_weights(size_t first, int64_t columns, const char* tag) {
  std::vector<float> all;
  for (size_t g = 0; g < 4; ++g) {
    if (!has_gate(g)) continue;
    LATHE_CHECK_OK(matrix(first + g, units_, columns, all));
  }
  return constant(tag, {size(gates_ * units_), size(columns)}, all);
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

Result<ValueId> Lstm::input_product(ValueId x) {
  LATHE_TRY(const ValueId weights, gate_weights(kInputWeights, inputs_, "weights"));
  LATHE_TRY(const ValueId real_x, n_.real(x));
  std::vector<ValueId> operands{real_x, weights};
  std::vector<float> all;
  for (size_t g = 0; g < 4; ++g) {
    if (!has_gate(g)) continue;
    LATHE_TRY(const std::vector<float> bias, bias_elements(g, x));
    if (normalized_) {
      LATHE_TRY(norm_biases_[g], constant("bias" + std::to_string(g), {size(units_)}, bias));
    }
    all.insert(all.end(), bias.begin(), bias.end());
  }
  if (!normalized_) {
    LATHE_TRY(operands.emplace_back(), constant("bias", {size(gates_ * units_)}, all));
  }
  return n_.emit("input", Op::kFullyConnected, FullyConnectedAttrs{}, std::move(operands));
}

Result<ValueId> Lstm::vector_constant(size_t operand, const std::string& tag) {
  LATHE_TRY(const ValueId v, n_.value(operand));
  if (n_.rank(v) != 1 || n_.dim(v, 0) != units_)
    return fail(Code::kInvalidArgument, tag + " does not have " + std::to_string(units_) + " elements");
  LATHE_TRY(const std::vector<float> elements, b_.real_elements(v));
  return constant(tag, {size(units_)}, elements);
}

Result<void> Lstm::read_vectors() {
  for (size_t g = 0; g < 4; ++g) {
    if (!has_gate(g)) continue;
    if (const size_t i = kPeepholeOf[g]; i != kNoPeephole && n_.has_input(kPeepholes + i)) {
      LATHE_TRY(peepholes_[g], vector_constant(kPeepholes + i, "peephole" + std::to_string(g)));
    }
    if (normalized_) {
      LATHE_TRY(norms_[g], vector_constant(kLayerNorm + g, "norm" + std::to_string(g)));
    }
  }
  return {};
}

Result<void> Lstm::read_projection() {
  if (!n_.has_input(kProjection)) return {};
  std::vector<float> elements;
  LATHE_CHECK_OK(matrix(kProjection, outputs_, units_, elements));
  LATHE_TRY(projection_, constant("projection", {size(outputs_), size(units_)}, elements));
  if (!n_.has_input(kProjectionBias)) return {};
  LATHE_TRY(projection_bias_, n_.value(kProjectionBias));
  return {};
}

Result<ValueId> Lstm::part(const std::string& tag, ValueId v, size_t axis, int64_t begin, int64_t end) {
  if (n_.dim(v, axis) == end - begin) return v;
  const auto at = static_cast<int32_t>(axis), from = static_cast<int32_t>(begin), to = static_cast<int32_t>(end);
  return n_.emit(tag, Op::kSlice, SliceAttrs{Ints{1, {at}}, Ints{1, {from}}, Ints{1, {to}}, Ints{1, {1}}}, {v});
}

Result<ValueId> Lstm::on_grid(const std::string& tag, ValueId h) {
  if (!grid_) return h;
  LATHE_TRY(const ValueId q, n_.emit(tag + "quantized", Op::kQuantize, NoAttrs{}, {h}, grid_));
  return n_.emit(tag + "h", Op::kDequantize, NoAttrs{}, {q});
}

Result<ValueId> Lstm::activated(const std::string& tag, ValueId v) {
  if (form_.activation == fbs::Activation_TANH) return n_.emit(tag, Op::kTanh, NoAttrs{}, {v});
  LATHE_TRY(const ActivationBounds bounds, activation_bounds(form_.activation));
  return n_.emit(tag, Op::kClamp, ClampAttrs{bounds.lo, bounds.hi}, {v});
}

// Gate `which` from all gates' z: what it lets through, or the cell's candidate.
Result<ValueId> Lstm::gate(const std::string& step, size_t which, ValueId z) {
  constexpr float kEpsilon = 1e-8f;
  const std::string tag = step + "gate" + std::to_string(which);
  const int64_t at = static_cast<int64_t>(which) - (4 - gates_);
  LATHE_TRY(ValueId v, part(tag + ":z", z, 1, at * units_, (at + 1) * units_));
  if (peepholes_[which] != kNoId) {
    LATHE_TRY(const ValueId seen, n_.emit(tag + ":peephole", Op::kMul, BinaryAttrs{}, {c_, peepholes_[which]}));
    LATHE_TRY(v, n_.emit(tag + ":sum", Op::kAdd, BinaryAttrs{}, {v, seen}));
  }
  if (normalized_) {
    LATHE_TRY(v, n_.emit(tag + ":norm", Op::kLayerNorm, LayerNormAttrs{1, kEpsilon}, {v, norms_[which], norm_biases_[which]}));
  }
  return which == kCell ? activated(tag, v) : n_.emit(tag, Op::kSigmoid, NoAttrs{}, {v});
}

Result<ValueId> Lstm::next_cell(const std::string& tag, ValueId z) {
  LATHE_TRY(const ValueId forget, gate(tag, kForget, z));
  LATHE_TRY(const ValueId fresh, gate(tag, kCell, z));
  ValueId in = kNoId;
  if (coupled_) {
    LATHE_TRY(const ValueId one, n_.real_constant(tag + "one", 1.0f));
    LATHE_TRY(in, n_.emit(tag + "in", Op::kSub, BinaryAttrs{}, {one, forget}));
  } else {
    LATHE_TRY(in, gate(tag, kInput, z));
  }
  LATHE_TRY(const ValueId added, n_.emit(tag + "added", Op::kMul, BinaryAttrs{}, {in, fresh}));
  LATHE_TRY(const ValueId kept, n_.emit(tag + "kept", Op::kMul, BinaryAttrs{}, {forget, c_}));
  return n_.emit(tag + "c", Op::kAdd, BinaryAttrs{cell_.lo, cell_.hi}, {kept, added});
}

// Step t from W x + b of all steps; gives h, with a time axis of 1 if there is one.
Result<ValueId> Lstm::step(int64_t t, ValueId gates) {
  const std::string tag = "step" + std::to_string(t) + ":";
  ValueId from_x = gates;
  if (form_.is_sequence) {
    LATHE_TRY(from_x, part(tag + "x", gates, time_axis_, t, t + 1));
    LATHE_TRY(from_x, n_.reshaped(tag + "row", from_x, {size(batch_), size(gates_ * units_)}));
  }
  LATHE_TRY(const ValueId from_h, n_.emit(tag + "recurrent", Op::kFullyConnected, FullyConnectedAttrs{}, {h_, recurrent_}));
  LATHE_TRY(const ValueId z, n_.emit(tag + "z", Op::kAdd, BinaryAttrs{}, {from_h, from_x}));
  LATHE_TRY(c_, next_cell(tag, z));
  LATHE_TRY(const ValueId out, gate(tag, kOutput, z));
  LATHE_TRY(const ValueId squashed, activated(tag + "squashed", c_));
  LATHE_TRY(h_, n_.emit(tag + "hidden", Op::kMul, BinaryAttrs{}, {out, squashed}));
  if (projection_ != kNoId) {
    std::vector<ValueId> operands{h_, projection_};
    if (projection_bias_ != kNoId) operands.push_back(projection_bias_);
    const float clip = form_.projection_clip > 0 ? form_.projection_clip : kInfinity;
    LATHE_TRY(h_, n_.emit(tag + "projected", Op::kFullyConnected, FullyConnectedAttrs{-clip, clip}, std::move(operands)));
  }
  LATHE_TRY(h_, on_grid(tag, h_));
  if (!form_.is_sequence) return h_;
  std::vector<Dim> dims = {size(batch_), size(batch_), size(outputs_)};
  dims[time_axis_] = size(1);
  return n_.reshaped(tag + "output", h_, dims);
}

Result<void> Lstm::import() {
  LATHE_CHECK_OK(read_form());
  LATHE_TRY(const ValueId x, n_.value(0));
  LATHE_CHECK_OK(read_sizes(x));
  LATHE_TRY(recurrent_, gate_weights(kRecurrentWeights, outputs_, "recurrent"));
  LATHE_CHECK_OK(read_vectors());
  LATHE_CHECK_OK(read_projection());
  LATHE_TRY(const ValueId h_state, b_.state(n_.op().inputs[kOutputState]));
  LATHE_TRY(const ValueId c_state, b_.state(n_.op().inputs[kCellState]));
  h_ = h_state;
  c_ = c_state;
  LATHE_TRY(const ValueId gates, input_product(x));
  LATHE_CHECK_OK(b_.charge(static_cast<size_t>(steps_) * kStepBytes));
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
  if (o->diagonal()) return fail(Code::kUnsupported, "diagonal recurrent weights");
  return Lstm(n, {o->activation(), o->cell_clip(), o->projection_clip(), true, o->time_major()}).import();
}

Result<void> import_lstm(NodeImport& n) {
  const auto* o = n.options().options_as_Lstm();
  if (o == nullptr) return fail(Code::kCorrupt, "its options are missing");
  if (o->kernel() != 0) return fail(Code::kUnsupported, "the basic form of LSTM is not supported");
  return Lstm(n, {o->activation(), o->cell_clip(), o->projection_clip(), false, false}).import();
}

}  // namespace lathe::tflite
