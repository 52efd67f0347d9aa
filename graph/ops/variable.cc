// Assign: writes a value into a variable when the step runs; no result. Readers earlier in the order see the old value.
#include "graph/ops/table.h"
#include "graph/ops/typing.h"

namespace lathe::ops {
namespace {

Types infer_assign(const InferInput& in) {
  const OperandView &variable = in.in[0], &value = in.in[1];
  LATHE_CHECK_OK(want_same_kind(variable, value, "value"));
  LATHE_CHECK_OK(agree_all(in.dims, variable.type->dims, value.type->dims, "value"));
  return std::vector<Inferred>{};
}

}  // namespace

constinit const OpDef kAssign = {
    .op = Op::kAssign,
    .min_inputs = 2,
    .max_inputs = 2,
    .outputs = 0,
    .infer = infer_assign,
};

}  // namespace lathe::ops
