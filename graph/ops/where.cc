// Where: bool condition, two operands of one type, all broadcast. On quantized values it only moves bytes, so both operands come
// to the result's grid.
#include "graph/links.h"
#include "graph/ops/table.h"
#include "graph/ops/typing.h"

namespace lathe::ops {
namespace {

// Element i of a known tensor that has one element or the result's shape; an invalid Dim otherwise.
Dim element(const InferInput& in, size_t operand, const std::vector<Dim>& out, size_t i) {
  const OperandView& v = in.in[operand];
  if (v.contents == nullptr || (v.contents->size() != 1 && v.type->dims != out)) return {};
  return (*v.contents)[v.contents->size() == 1 ? 0 : i];
}

std::optional<std::vector<Dim>> where_contents(const InferInput& in, const std::vector<Dim>& out) {
  const auto count = small_count(in.dims, out);
  if (!count || in.in[0].contents == nullptr) return std::nullopt;
  std::vector<Dim> contents(*count);
  for (size_t i = 0; i < *count; ++i) {
    const Dim condition = element(in, 0, out, i);
    const auto known = condition.valid() ? in.dims.value(condition) : std::nullopt;
    if (!known) return std::nullopt;
    contents[i] = element(in, *known != 0 ? 1 : 2, out, i);
    if (!contents[i].valid()) return std::nullopt;
  }
  return contents;
}

Types infer_where(const InferInput& in) {
  const OperandView &condition = in.in[0], &a = in.in[1], &b = in.in[2];
  if (condition.type->dtype != DType::kBool)
    return fail(Code::kInvalidArgument, std::string("condition is ") + dtype_name(condition.type->dtype) + ", must be bool");
  LATHE_CHECK_OK(want_same_kind(a, b, "third input"));
  LATHE_TRY(std::vector<Dim> out, broadcast(in.dims, a.type->dims, b.type->dims));
  LATHE_TRY(out, broadcast(in.dims, condition.type->dims, out));
  auto contents = where_contents(in, out);
  return result({a.type->dtype, std::move(out)}, is_quantized(a), std::move(contents));
}

constexpr QuantRule kOfResult = {QuantRole::kSameAs, -1, -1};

}  // namespace

constinit const OpDef kWhere = {
    .op = Op::kWhere,
    .min_inputs = 3,
    .max_inputs = 3,
    .outputs = 1,
    .infer = infer_where,
    .quant_in = {{QuantRole::kInteger}, kOfResult, kOfResult},
    .quant_out = {QuantRole::kActivation},
    .has_s8 = true,
    .half = HalfForm::kNative,
    .layout_free = true,
    .links = link_elementwise,
};

}  // namespace lathe::ops
