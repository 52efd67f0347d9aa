// Lowering: a graph becomes a program image (PLAN and WEIGHTS bytes) for a target.
//
// The graph must have been through lowering_passes(). Operands per op: runtime/exec/exec.h. Constants are packed for the target's
// kernels, bias is folded with the input's zero point for both storages, per-channel multipliers are computed in double and
// rounded once.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "graph/ir.h"
#include "runtime/exec/conv_geometry.h"
#include "runtime/host/meta.h"
#include "runtime/program.h"

namespace lathe {

enum class Target : uint32_t { kHost = 0, kCortexM = 1 };
Result<Target> parse_target(std::string_view name);  // "host", "cortex-m4"
const char* target_name(Target target);

using StepInfo = StepNames;

struct ProgramImage {
  std::vector<uint8_t> plan;            // PLAN section
  std::shared_ptr<const uint8_t> weights;  // 64-byte aligned, weights_bytes long plus 64 readable bytes
  uint64_t weights_bytes = 0;
  std::vector<StepInfo> steps;          // one per step, for reports (META)
  // For every constant tensor: the graph value it was made from, or kNoId for derived ones (folded bias, multipliers).
  std::vector<ValueId> tensor_values;   // by tensor index; for temporaries the value too, so that observers can name them
  std::vector<std::optional<ConvPacking>> tensor_packings;  // by tensor index: of constants whose layout is not kPlain
  std::vector<std::string> input_names, output_names, variable_names;  // by port
  std::vector<std::string> symbol_names;
};

// Block-sparse 8-bit weights. kAuto: those whose kernels were measured to be faster are stored without their blocks of zeros
// (kernels/gemm_sparse), on hosts. Results are the same.
enum class SparseWeights : uint32_t { kAuto = 0, kOff = 1 };

// Errors: kUnsupported naming node and op (no kernel, an operand that must be constant is not), kInvalidArgument (accumulator
// bound).
Result<ProgramImage> lower(const Graph& graph, Target target, SparseWeights sparse = SparseWeights::kAuto);

}  // namespace lathe
