// What the compiler knows of an operator, in one place: graph/ops/<family>.cc defines one constinit OpDef per op of runtime/ops.def.
//
// Nothing in quant/, prune/, train/, serve/ or tools/ asks for an op by name; it asks this table.
#pragma once
#include <span>
#include <vector>

#include "graph/ir.h"

namespace lathe {

class Links;     // graph/links.h
class Narrowed;

// One operand as infer sees it. `type` is null for a missing optional operand.
struct OperandView {
  const TensorType* type = nullptr;
  const std::optional<Quant>* quant = nullptr;
  const std::vector<Dim>* contents = nullptr;  // known contents of a small integer tensor, else null
  const Constant* constant = nullptr;          // bytes, if it is a constant
  explicit operator bool() const { return type != nullptr; }
};

struct Inferred {
  TensorType type;
  std::optional<std::vector<Dim>> contents = {};
  // The result is an integer tensor that stands for real numbers: it must have quantization parameters, per tensor.
  bool quantized = false;
  // infer_node sets these: what was asked for, else what a kSameAs or kFixed rule gives.
  std::optional<Quant> quant = {};
};

struct InferInput {
  DimTable& dims;
  std::span<const OperandView> in;
  const Attrs& attrs;
};

// How an operand or a result takes part in quantization.
enum class QuantRole : uint8_t {
  kActivation,  // affine s8, its own observed range
  kSymmetric,   // operands: the same with zero point 0, so that a product needs no sums of the other operand
  kWeight,      // symmetric s8, per channel along `axis`
  kBias,        // s32 at s_x * s_w[c]
  kSameAs,      // results: exactly the parameters of input `index`; operands (index -1): best the result's, others are regridded
  kFixed,       // `fixed`
  kFloatOnly,   // stays float
  kFloatConstant,  // a constant that stays float though the op is s8 (layer norm's scale)
  kInteger,     // not a real number (indices, shapes): left alone
};
struct QuantRule {
  QuantRole role = QuantRole::kFloatOnly;
  int8_t axis = -1;    // kWeight
  int8_t index = -1;   // kSameAs
  QuantParams fixed{};  // kFixed
};

// How an op runs on operands stored in half precision: not at all; as they are; or widened to float32 before it and narrowed
// behind it, which lowering does.
enum class HalfForm : uint8_t { kNone, kNative, kWidened };

inline constexpr size_t kMaxRules = 8;
inline constexpr uint8_t kAnyInputs = 255;

// The op that computes the same from float activations, which it quantizes on the fly, and INT8 weights.
struct DynamicForm {
  Op op;
  // Its attributes; per_token: one scale per row of the activations, else one for the whole tensor.
  Attrs (*attrs)(const Attrs& attrs, bool per_token);
};

struct OpDef {
  Op op;
  uint8_t min_inputs, max_inputs;  // max: at most kMaxRules, or kAnyInputs; operands past min may be missing
  uint8_t outputs;
  // Result types; also the contents of small integer results. A real-valued op on quantized operands (integer dtype with parameters) gives a
  // quantized result. Dims that are equal for some values of the symbols are taken as equal; prepare checks them again. Errors: lower case, both numbers, no node name (the caller adds it).
  Result<std::vector<Inferred>> (*infer)(const InferInput&);
  // Per operand (variadic ops: the first one's rule is everyone's; see quant_rule) and for the results.
  QuantRule quant_in[kMaxRules] = {};
  QuantRule quant_out = {};
  // Whether an s8 form of this op exists in the executor. `as_table`: a one-input function that becomes a table of 256 entries.
  bool has_s8 = false;
  bool as_table = false;
  // How far below the largest of its row (last axis) a value of operand 0 may lie and still change the result: a grid for it need
  // not reach further, whatever a mask adds. 0, or null: no such bound.
  float (*reach)(const Attrs& attrs, size_t rank) = nullptr;
  // For ops with weights: operands are the same, only the weight becomes INT8. Null: none.
  const DynamicForm* dynamic = nullptr;
  // For ops that do what a convolution does: the attributes of that convolution; a fully connected layer is one of single pixels.
  Conv2dAttrs (*as_convolution)(const Attrs& attrs) = nullptr;
  // Whether operands from the second on are constants that every channel (last axis) of the result is multiplied by and raised by.
  bool channel_affine = false;
  HalfForm half = HalfForm::kNone;
  // Whether operand 1 picks rows (first axis) of operand 0. Null: no.
  bool (*takes_rows)(const Attrs& attrs) = nullptr;
  // A Transpose of every operand may move to the result: op(transpose(x, perm)) == transpose(op'(x), out_perm), where `permute` turns
  // op's attributes into those of op' and returns out_perm. Null `permute`: no axes in the attributes, and out_perm is perm. Operands of
  // lower rank broadcast along the last axes, so they must be brought to full rank first.
  bool layout_free = false;
  Ints (*permute)(Attrs& attrs, const Ints& perm) = nullptr;
  // Multiply-accumulates (results in dims), null: 0. bytes read and written are those of its operands.
  Dim (*macs)(const InferInput&, std::span<const TensorType> out) = nullptr;
  // Which axes of operands and results carry the same channels (graph/links.h). Null: channels cannot go from anything it touches.
  void (*links)(Links& links) = nullptr;
  // Attributes that count positions of linked axes (groups, slice bounds), when some have gone. Null: there are none.
  void (*narrow)(Attrs& attrs, const Narrowed& gone) = nullptr;
  // Whether the result, with default attributes, is the sum of operands 0 and 1.
  bool sum = false;
};

// The rule of operand `i`.
inline const QuantRule& quant_rule(const OpDef& def, size_t i) { return def.quant_in[def.max_inputs == kAnyInputs ? 0 : i]; }

// Requires: op_name(op) is not null.
const OpDef& op_def(Op op);
const OpDef* find_op(std::string_view name);  // by ops.def name; nullptr if there is none

// Types of all results of `node` in `graph`, with `quants` (by result, may be shorter) as the parameters asked for; the error has no node
// name. Arity, attribute struct, operand ids and their types are checked first, so that infer functions can rely on them.
Result<std::vector<Inferred>> infer_node(const Graph& graph, const Node& node, std::span<const std::optional<Quant>> quants);
// The same with the parameters that the node's results have.
Result<std::vector<Inferred>> infer_node(const Graph& graph, const Node& node);

// Multiply-accumulates of a node in terms of its dims; an invalid Dim for ops that have none.
Result<Dim> node_macs(const Graph& graph, const Node& node);

// A known element type, rank at most kMaxRank, valid dims, constant ones in [0, 2^31).
Result<void> check_type(const DimTable& dims, const TensorType& type);

// Whether `quant` can describe a value of this type: finite normal scales > 0, one or as many as axis is long, zero points and
// [qmin, qmax] in the range of an integer type.
Result<void> check_quant(const DimTable& dims, const TensorType& type, const Quant& quant);

}  // namespace lathe
