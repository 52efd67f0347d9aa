// What the compiler knows of an operator, in one place: graph/ops/<family>.cc defines one constinit OpDef per op of runtime/ops.def.
//
// Nothing in quant/, prune/, train/, serve/ or tools/ asks for an op by name; it asks this table.
#pragma once
#include <span>
#include <vector>

#include "graph/ir.h"

namespace lathe {

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
  std::optional<std::vector<Dim>> contents;
};

struct InferInput {
  DimTable& dims;
  std::span<const OperandView> in;
  const Attrs& attrs;
};

// How an operand or a result takes part in quantization.
enum class QuantRole : uint8_t {
  kActivation,  // affine s8, its own observed range
  kWeight,      // symmetric s8, per channel along `axis`
  kBias,        // s32 at s_x * s_w[c]
  kSameAs,      // the parameters of input `index` (results), or of the result (operands: index -1)
  kFixed,       // `fixed`
  kFloatOnly,   // stays float
  kInteger,     // not a real number (indices, shapes): left alone
};
struct QuantRule {
  QuantRole role = QuantRole::kFloatOnly;
  int8_t axis = -1;    // kWeight
  int8_t index = -1;   // kSameAs
  QuantParams fixed{};  // kFixed
};

inline constexpr size_t kMaxRules = 8;

struct OpDef {
  Op op;
  uint8_t min_inputs, max_inputs;  // 255: any number
  uint8_t outputs;
  // Result types; also the contents of small integer results. Errors: lower case, both numbers, no node name (the caller adds it).
  Result<std::vector<Inferred>> (*infer)(const InferInput&);
  // Per operand (the last one repeats for variadic ops) and per result.
  QuantRule quant_in[kMaxRules];
  QuantRule quant_out[1];
  // Whether an s8 form of this op exists in the executor. `as_table`: a one-input function that becomes a table of 256 entries.
  bool has_s8 = false;
  bool as_table = false;
  // Elementwise in its first operand's shape: a Transpose may move through it (attributes with axes are mapped by `permute`).
  bool layout_free = false;
  // Rewrites axis attributes for operands that were permuted by perm (new axis i was axis perm[i]); null: no axes.
  void (*permute)(Attrs&, const Ints& perm) = nullptr;
  // Multiply-accumulates (results in dims), null: 0. bytes read and written are those of its operands.
  Dim (*macs)(const InferInput&, std::span<const TensorType> out) = nullptr;
};

const OpDef& op_def(Op op);
const OpDef* find_op(std::string_view name);  // by ops.def name; nullptr if there is none

// Types of all results of `node` in `graph`; the error has no node name.
Result<std::vector<Inferred>> infer_node(const Graph& graph, const Node& node);

}  // namespace lathe
