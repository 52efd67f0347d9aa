// RNN, GRU and LSTM: per direction one product of all inputs with their weights, then the recurrent op; the directions' results
// are put side by side. ONNX has all tensors of a direction stacked along their first axis (states along the second where
// layout is 1: batch first).
#include <algorithm>

#include "graph/import/onnx/reshape.h"

namespace lathe::onnx {
namespace {

constexpr Ints kSwapFirst{3, {1, 0, 2}};
constexpr Ints kSwap{2, {1, 0}};

struct Layer {
  Op op;
  int64_t gates;
  size_t functions;  // per direction
  const char* defaults[3];
};
constexpr Layer kRnnLayer{Op::kRnn, 1, 1, {"Tanh"}};
constexpr Layer kGruLayer{Op::kGru, 3, 2, {"Sigmoid", "Tanh"}};
constexpr Layer kLstmLayer{Op::kLstm, 4, 3, {"Sigmoid", "Tanh", "Tanh"}};

// ONNX operands; those past `kInitialH` are LSTM's.
enum Operand : size_t { kX, kW, kR, kB, kLengths, kInitialH, kInitialC, kP };

struct FunctionName {
  const char* name;
  CellFunction function;
  int parameters;
  float a, b;  // where the node gives none
};
constexpr FunctionName kFunctions[] = {
    {"sigmoid", CellFunction::kSigmoid, 0, 0, 0},
    {"tanh", CellFunction::kTanh, 0, 0, 0},
    {"relu", CellFunction::kRelu, 0, 0, 0},
    {"softsign", CellFunction::kSoftsign, 0, 0, 0},
    {"affine", CellFunction::kAffine, 2, 1, 0},
    {"leakyrelu", CellFunction::kLeakyRelu, 1, 0.01f, 0},
    {"thresholdedrelu", CellFunction::kThresholdedRelu, 1, 1, 0},
    {"scaledtanh", CellFunction::kScaledTanh, 2, 1, 1},
    {"hardsigmoid", CellFunction::kHardSigmoid, 2, 0.2f, 0.5f},
    {"elu", CellFunction::kElu, 1, 1, 0},
};

Result<const FunctionName*> find_function(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const FunctionName& f : kFunctions)
    if (lower == f.name) return &f;
  return fail(Code::kUnsupported, "activation '" + std::string(name) + "' is not supported");
}

// A list's next number, or what stands in for it.
float next(const Attribute* list, size_t* at, float absent) {
  return list != nullptr && *at < list->floats.size() ? list->floats[(*at)++] : absent;
}

// The cell functions of each direction, in attributes that are otherwise `common`.
Result<std::vector<RecurrentAttrs>> read_functions(NodeImport& n, const Layer& layer, size_t directions,
                                                   const RecurrentAttrs& common) {
  const Attribute *names = n.take("activations"), *alpha = n.take("activation_alpha"), *beta = n.take("activation_beta");
  if (names != nullptr && names->strings.size() != directions * layer.functions)
    return fail(Code::kInvalidArgument,
                std::to_string(names->strings.size()) + " activations, must be " + std::to_string(directions * layer.functions));
  std::vector<RecurrentAttrs> out(directions, common);
  size_t next_a = 0, next_b = 0;
  for (size_t d = 0; d < directions; ++d) {
    float* parameters[3][2] = {{&out[d].f_a, &out[d].f_b}, {&out[d].g_a, &out[d].g_b}, {&out[d].h_a, &out[d].h_b}};
    for (size_t i = 0; i < layer.functions; ++i) {
      const std::string_view name = names == nullptr ? layer.defaults[i] : names->strings[d * layer.functions + i];
      LATHE_TRY(const FunctionName* f, find_function(name));
      out[d].functions[i] = static_cast<int32_t>(f->function);
      if (f->parameters > 0) *parameters[i][0] = next(alpha, &next_a, f->a);
      if (f->parameters > 1) *parameters[i][1] = next(beta, &next_b, f->b);
    }
  }
  return out;
}

Result<std::vector<RecurrentAttrs>> read_attributes(NodeImport& n, const Layer& layer) {
  LATHE_TRY(const std::string_view direction, n.text("direction", "forward"));
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    return fail(Code::kInvalidArgument, "direction is '" + std::string(direction) + "'");
  RecurrentAttrs common;
  LATHE_TRY(common.clip, n.real("clip", 0.0f));
  if (layer.op == Op::kGru) {
    LATHE_TRY(common.reset_after, n.flag("linear_before_reset", false));
  }
  if (layer.op == Op::kLstm) {
    LATHE_TRY(common.coupled_gates, n.flag("input_forget", false));
  }
  n.ignore("output_sequence");  // before opset 7
  LATHE_TRY(auto out, read_functions(n, layer, direction == "bidirectional" ? 2 : 1, common));
  out.back().reverse = direction == "forward" ? 0 : 1;
  return out;
}

// Import of one node.
class RecurrentImport {
 public:
  RecurrentImport(NodeImport& n, const Layer& layer) : n_(n), layer_(layer) {}
  Result<void> run();

 private:
  // Part `d` of operand i, whose `axis` counts directions: without that axis. A constant stays one.
  Result<Binding> part(size_t i, size_t d, size_t axis);
  Result<ValueId> part_value(size_t i, size_t d, size_t axis = 0);
  Result<ValueId> input_product(ValueId x, size_t d);
  Result<ValueId> recurrent_weight(size_t d);
  // Half `half` of operand B for direction d: the inputs' bias, or the recurrent one.
  Result<ValueId> bias(size_t d, int32_t half);
  Result<ValueId> slice(const std::string& tag, ValueId v, int32_t axis, int32_t begin, int32_t end);
  Result<void> direction(ValueId x, size_t d, RecurrentAttrs attrs);
  // Output `output`, from one value of each direction, whose axis `axis` is new.
  Result<void> join(size_t output, const std::vector<ValueId>& parts, size_t axis, const char* tag);
  std::string tag(const char* what, size_t d) const { return std::string(d == 0 ? "" : "reverse_") + what; }

  NodeImport& n_;
  const Layer& layer_;
  bool batch_first_ = false;
  int32_t width_ = 0;  // gates times state
  std::vector<ValueId> y_, h_, c_;
};

Result<Binding> RecurrentImport::part(size_t i, size_t d, size_t axis) {
  LATHE_TRY(const auto t, n_.constant(i));
  if (t && axis == 0 && t->dims.size() > 1 && t->dims[0] > static_cast<int64_t>(d)) {
    ConstTensor out{t->name + ":" + std::to_string(d), t->dtype, {t->dims.begin() + 1, t->dims.end()}, t->bytes};
    const size_t bytes = t->bytes.bytes.size() / static_cast<size_t>(t->dims[0]);
    out.bytes.bytes = t->bytes.bytes.subspan(d * bytes, bytes);
    return Binding{kNoId, std::make_shared<const ConstTensor>(std::move(out))};
  }
  LATHE_TRY(const ValueId v, n_.value(i));
  std::vector<Dim> dims = n_.type(v).dims;
  if (dims.size() <= axis)
    return fail(Code::kInvalidArgument, "input " + std::to_string(i) + " has rank " + std::to_string(dims.size()));
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
  const std::string name = tag("part", d) + std::to_string(i);
  const auto at = static_cast<int32_t>(d);
  LATHE_TRY(const ValueId one, slice(name, v, static_cast<int32_t>(axis), at, at + 1));
  LATHE_TRY(const ValueId flat, reshaped(n_, name, one, dims));
  return Binding{flat, nullptr};
}

Result<ValueId> RecurrentImport::part_value(size_t i, size_t d, size_t axis) {
  if (!n_.has_input(i)) return kNoId;
  LATHE_TRY(Binding b, part(i, d, axis));
  return n_.builder().materialize(b);
}

Result<ValueId> RecurrentImport::slice(const std::string& tag, ValueId v, int32_t axis, int32_t begin, int32_t end) {
  return n_.emit(tag, Op::kSlice, SliceAttrs{Ints{1, {axis}}, Ints{1, {begin}}, Ints{1, {end}}, Ints{1, {1}}}, {v});
}

Result<ValueId> RecurrentImport::bias(size_t d, int32_t half) {
  LATHE_TRY(const ValueId both, part_value(kB, d));
  if (both == kNoId) return kNoId;
  return slice(tag(half == 0 ? "bias" : "recurrent_bias", d), both, 0, half * width_, (half + 1) * width_);
}

Result<ValueId> RecurrentImport::input_product(ValueId x, size_t d) {
  LATHE_TRY(Binding w, part(kW, d, 0));
  LATHE_TRY(const ValueId weight, n_.builder().materialize(w));
  if (n_.rank(weight) != 2) return fail(Code::kInvalidArgument, "W has rank " + std::to_string(n_.rank(weight) + 1) + ", not 3");
  LATHE_TRY(const ValueId b, bias(d, 0));
  if (w.tensor) {
    std::vector<ValueId> operands{x, weight};
    if (b != kNoId) operands.push_back(b);
    return n_.emit(tag("gates", d), Op::kFullyConnected, FullyConnectedAttrs{}, operands);
  }
  MatMulAttrs attrs;
  attrs.b_perm = kSwap;
  LATHE_TRY(const ValueId product, n_.emit(tag("gates", d), Op::kMatMul, attrs, {x, weight}));
  if (b == kNoId) return product;
  return n_.emit(tag("gates", d), Op::kAdd, BinaryAttrs{}, {product, b});
}

Result<ValueId> RecurrentImport::recurrent_weight(size_t d) {
  LATHE_TRY(Binding r, part(kR, d, 0));
  if (r.tensor && r.tensor->dims.size() == 2) return n_.builder().constant(permuted(*r.tensor, {1, 0}));
  LATHE_TRY(const ValueId v, n_.builder().materialize(r));
  if (n_.rank(v) != 2) return fail(Code::kInvalidArgument, "R has rank " + std::to_string(n_.rank(v) + 1) + ", not 3");
  return n_.emit(tag("recurrent_weight", d), Op::kTranspose, PermAttrs{kSwap}, {v});
}

Result<void> RecurrentImport::direction(ValueId x, size_t d, RecurrentAttrs attrs) {
  LATHE_TRY(const ValueId r, recurrent_weight(d));
  const auto width = n_.dim(r, 1);
  if (!width || *width % layer_.gates != 0 || *width > INT32_MAX / 2)
    return fail(Code::kInvalidArgument,
                "R has " + n_.dims().text(n_.type(r).dims[1]) + " rows, not a multiple of " + std::to_string(layer_.gates));
  width_ = static_cast<int32_t>(*width);
  LATHE_TRY(const int64_t hidden, n_.integer("hidden_size", *width / layer_.gates));
  if (hidden != *width / layer_.gates)
    return fail(Code::kInvalidArgument,
                "hidden_size is " + std::to_string(hidden) + ", R is for " + std::to_string(*width / layer_.gates));
  LATHE_TRY(const ValueId gates, input_product(x, d));
  std::vector<ValueId> operands{gates, r, kNoId, kNoId, kNoId};
  LATHE_TRY(operands[2], bias(d, 1));
  const size_t state_axis = batch_first_ ? 1 : 0;
  LATHE_TRY(operands[3], part_value(kInitialH, d, state_axis));
  if (n_.has_input(kLengths)) {
    LATHE_TRY(operands[4], n_.value(kLengths));
  }
  if (layer_.op == Op::kLstm) {
    LATHE_TRY(operands.emplace_back(), part_value(kInitialC, d, state_axis));
    LATHE_TRY(operands.emplace_back(), part_value(kP, d));
  }
  LATHE_TRY(const auto results, n_.emit_all(tag("layer", d), layer_.op, attrs, operands));
  y_.push_back(results[0]);
  h_.push_back(results[1]);
  if (layer_.op == Op::kLstm) c_.push_back(results[2]);
  return {};
}

Result<void> RecurrentImport::join(size_t output, const std::vector<ValueId>& parts, size_t axis, const char* what) {
  if (!n_.has_output(output)) return {};
  std::vector<ValueId> joined;
  for (ValueId v : parts) {
    std::vector<Dim> dims = n_.type(v).dims;
    dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), n_.dims().constant(1));
    if (parts.size() == 1) {
      LATHE_TRY(const ValueId only, reshaped(n_, what, v, dims));
      n_.bind({only, nullptr}, output);
      return {};
    }
    LATHE_TRY(joined.emplace_back(), reshaped(n_, what, v, dims));
  }
  return n_.finish(Op::kConcat, AxisAttrs{static_cast<int32_t>(axis)}, joined, output, what);
}

Result<void> RecurrentImport::run() {
  LATHE_TRY(batch_first_, n_.flag("layout", false));
  LATHE_TRY(const auto attrs, read_attributes(n_, layer_));
  LATHE_TRY(ValueId x, n_.value(kX));
  if (n_.rank(x) != 3) return fail(Code::kInvalidArgument, "X has rank " + std::to_string(n_.rank(x)) + ", not 3");
  if (batch_first_) {
    LATHE_TRY(x, n_.emit("time_first", Op::kTranspose, PermAttrs{kSwapFirst}, {x}));
  }
  for (size_t d = 0; d < attrs.size(); ++d) LATHE_CHECK_OK(direction(x, d, attrs[d]));
  for (ValueId& y : y_) {
    if (!batch_first_ || !n_.has_output(0)) break;
    LATHE_TRY(y, n_.emit("batch_first", Op::kTranspose, PermAttrs{kSwapFirst}, {y}));
  }
  LATHE_CHECK_OK(join(0, y_, batch_first_ ? 2 : 1, "y"));
  LATHE_CHECK_OK(join(1, h_, batch_first_ ? 1 : 0, "y_h"));
  return join(2, c_, batch_first_ ? 1 : 0, "y_c");
}

}  // namespace

Result<void> import_rnn(NodeImport& n) { return RecurrentImport(n, kRnnLayer).run(); }
Result<void> import_gru(NodeImport& n) { return RecurrentImport(n, kGruLayer).run(); }
Result<void> import_lstm(NodeImport& n) { return RecurrentImport(n, kLstmLayer).run(); }

}  // namespace lathe::onnx
