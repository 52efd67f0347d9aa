// Plain recurrent layers: h' = f(W x + R h + b). Their state lives in a variable from one run to the next.
#include "graph/import/tflite/importer.h"

namespace lathe::tflite {
namespace {

enum Operand : size_t { kX, kWeights, kRecurrent, kBias, kState };

struct RnnForm {
  fbs::Activation activation;
  bool is_sequence, time_major;
};

Result<RecurrentAttrs> rnn_attrs(fbs::Activation activation) {
  RecurrentAttrs a;
  switch (activation) {
    case fbs::Activation_TANH: a.functions[0] = static_cast<int32_t>(CellFunction::kTanh); break;
    case fbs::Activation_RELU: a.functions[0] = static_cast<int32_t>(CellFunction::kRelu); break;
    case fbs::Activation_NONE:
      a.functions[0] = static_cast<int32_t>(CellFunction::kAffine);
      a.f_a = 1;
      break;
    default: return fail(Code::kUnsupported, "activation " + std::to_string(static_cast<int>(activation)) + " is not supported");
  }
  return a;
}

// A constant weight as float, as it is or transposed.
Result<ValueId> real_matrix(NodeImport& n, size_t operand, bool transposed) {
  LATHE_TRY(const ValueId w, n.value(operand));
  if (n.rank(w) != 2) return fail(Code::kInvalidArgument, "a weight has rank " + std::to_string(n.rank(w)) + ", must be 2");
  Builder& b = n.builder();
  LATHE_TRY(std::vector<float> elements, b.real_elements(w));
  std::vector<Dim> dims = n.type(w).dims;
  if (transposed) {
    const auto rows = static_cast<size_t>(*n.dim(w, 0)), columns = static_cast<size_t>(*n.dim(w, 1));
    std::vector<float> turned(elements.size());
    for (size_t i = 0; i < elements.size(); ++i) turned[i % columns * rows + i / columns] = elements[i];
    elements = std::move(turned);
    std::swap(dims[0], dims[1]);
  }
  return b.graph.add_constant(b.value_name(n.name() + (transposed ? ":recurrent" : ":weights")), {DType::kF32, std::move(dims)},
                              Constant::of(elements));
}

// [batch, steps, n] to [steps, batch, n] or back.
Result<ValueId> swapped(NodeImport& n, const char* tag, ValueId v) {
  return n.emit(tag, Op::kTranspose, PermAttrs{Ints{3, {1, 0, 2}}}, {v});
}

Result<void> import_layer(NodeImport& n, const RnnForm& form) {
  LATHE_TRY(const RecurrentAttrs attrs, rnn_attrs(form.activation));
  LATHE_TRY(ValueId x, n.value(kX));
  const size_t rank = form.is_sequence ? 3 : 2;
  if (n.rank(x) != rank)
    return fail(Code::kInvalidArgument,
                "an input of rank " + std::to_string(n.rank(x)) + ", must be " + std::to_string(rank));
  LATHE_TRY(const ValueId weights, real_matrix(n, kWeights, false));
  LATHE_TRY(const ValueId recurrent, real_matrix(n, kRecurrent, true));
  LATHE_TRY(const ValueId bias, n.value(kBias));
  if (!n.has_input(kState)) return fail(Code::kInvalidArgument, "no state");
  LATHE_TRY(const ValueId state, n.builder().state(n.op().inputs[kState]));
  LATHE_TRY(ValueId gates, n.emit("input", Op::kFullyConnected, FullyConnectedAttrs{}, {x, weights, bias}));
  if (!form.is_sequence) {
    std::vector<Dim> dims = n.type(gates).dims;
    dims.insert(dims.begin(), n.dims().constant(1));
    LATHE_TRY(gates, n.reshaped("steps", gates, dims));
  } else if (!form.time_major) {
    LATHE_TRY(gates, swapped(n, "time_first", gates));
  }
  LATHE_TRY(const auto results, n.emit_all("layer", Op::kRnn, attrs, {gates, recurrent, kNoId, state}));
  LATHE_CHECK_OK(n.assign("state", state, results[1]));
  if (!form.is_sequence) return n.finish_value(results[1]);
  if (form.time_major) return n.finish_value(results[0]);
  LATHE_TRY(const ValueId y, swapped(n, "batch_first", results[0]));
  return n.finish_value(y);
}

}  // namespace

Result<void> import_rnn(NodeImport& n) {
  const auto* o = n.options().options_as_Rnn();
  if (o == nullptr) return fail(Code::kCorrupt, "its options are missing");
  return import_layer(n, {o->activation(), false, false});
}

Result<void> import_sequence_rnn(NodeImport& n) {
  const auto* o = n.options().options_as_SequenceRnn();
  if (o == nullptr) return fail(Code::kCorrupt, "its options are missing");
  return import_layer(n, {o->activation(), true, o->time_major()});
}

}  // namespace lathe::tflite
