// Conversions of type. 16-bit floats are f32 here, so a conversion to one rounds: to that type and back.
#include "graph/import/onnx/expression.h"

namespace lathe::onnx {
namespace {

// The dtype whose rounding a conversion to `elem_type` has, where that is not the dtype it becomes.
std::optional<DType> rounding_type(int32_t elem_type) {
  if (elem_type == static_cast<int32_t>(ElemType::kFloat16)) return DType::kF16;
  if (elem_type == static_cast<int32_t>(ElemType::kBfloat16)) return DType::kBF16;
  return std::nullopt;
}

Result<void> convert(NodeImport& n, int32_t elem_type) {
  LATHE_TRY(const DType dtype, dtype_of(elem_type));
  LATHE_TRY(const ValueId x, n.value(0));
  n.note_elem_type(elem_type);
  Expression e(n);
  const auto rounding = rounding_type(elem_type);
  if (rounding && n.elem_type(0) != elem_type) {
    const ValueId rounded = e.node(Op::kCast, {x}, CastAttrs{static_cast<int32_t>(*rounding)});
    return e.finish(Op::kCast, {rounded}, CastAttrs{static_cast<int32_t>(DType::kF32)});
  }
  if (n.type(x).dtype != dtype) return e.finish(Op::kCast, {x}, CastAttrs{static_cast<int32_t>(dtype)});
  n.bind(n.binding(0));
  return {};
}

}  // namespace

Result<void> import_cast(NodeImport& n) {
  n.ignore("saturate");  // for 8-bit floats only, which are refused
  n.ignore("round_mode");
  LATHE_TRY(const int64_t to, n.integer("to", 0));
  return convert(n, to < 0 || to > INT32_MAX ? -1 : static_cast<int32_t>(to));
}

Result<void> import_cast_like(NodeImport& n) {
  n.ignore("saturate");
  n.ignore("round_mode");
  return convert(n, n.elem_type(1));
}

// Between types whose width is that of the file. Floats that are f32 here and were not in the file have other bits, and another
// width, which is how they are found.
Result<void> import_bit_cast(NodeImport& n) {
  LATHE_TRY(const int64_t to, n.integer("to", 0));
  const int32_t elem_type = to < 0 || to > INT32_MAX ? -1 : static_cast<int32_t>(to);
  LATHE_TRY(const DType dtype, dtype_of(elem_type));
  LATHE_TRY(const ValueId x, n.value(0));
  const bool same_width = dtype_bytes(dtype) == dtype_bytes(n.type(x).dtype);
  const bool is_own = dtype != DType::kF32 || elem_type == static_cast<int32_t>(ElemType::kFloat);
  if (!same_width || !is_own)
    return fail(Code::kUnsupported, "the bits of " + elem_type_name(n.elem_type(0)) + " as " + elem_type_name(elem_type) +
                                        " are not supported: floats are computed as float32");
  return n.finish(Op::kBitCast, CastAttrs{static_cast<int32_t>(dtype)}, {x});
}

}  // namespace lathe::onnx
