// Shapes as values, and tensors that are made from shapes and numbers.
#include <cmath>

#include "graph/import/tflite/importer.h"

namespace lathe::tflite {

Result<void> import_shape(NodeImport& n) {
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const DType to, dtype_of(n.output()));
  LATHE_TRY(const ValueId shape, n.emit("shape", Op::kShape, NoAttrs{}, {x}));
  if (to == DType::kS64) return n.finish_value(shape);
  return n.finish(Op::kCast, CastAttrs{static_cast<int32_t>(to)}, {shape});
}

Result<void> import_rank(NodeImport& n) {
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const ValueId rank, n.number("rank", DType::kS32, static_cast<int64_t>(n.rank(x))));
  return n.finish_value(rank);
}

Result<void> import_broadcast_to(NodeImport& n) {
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const ValueId shape, n.value(1));
  return n.finish(Op::kExpand, NoAttrs{}, {x, shape});
}

Result<void> import_fill(NodeImport& n) {
  LATHE_TRY(const ValueId shape, n.value(0));
  LATHE_TRY(const ValueId x, n.value(1));
  if (n.rank(x) != 0) return fail(Code::kInvalidArgument, "its value has rank " + std::to_string(n.rank(x)) + ", must be 0");
  return n.finish(Op::kExpand, NoAttrs{}, {x, shape});
}

Result<void> import_zeros_like(NodeImport& n) {
  LATHE_TRY(const ValueId x, n.value(0));
  if (n.quant(x)) return fail(Code::kUnsupported, "a quantized input is not supported");
  LATHE_TRY(const ValueId zero, n.number("zero", n.type(x).dtype, 0));
  LATHE_TRY(const ValueId shape, n.emit("shape", Op::kShape, NoAttrs{}, {x}));
  return n.finish(Op::kExpand, NoAttrs{}, {zero, shape});
}

namespace {

// How many elements a range of float constants has; nothing if an operand is computed.
Result<std::optional<int64_t>> constant_count(NodeImport& n, const std::vector<ValueId>& operands) {
  double v[3] = {};
  for (size_t i = 0; i < 3; ++i) {
    const Value& value = n.builder().graph.value(operands[i]);
    if (value.kind != ValueKind::kConstant || value.type.dtype != DType::kF32) return std::nullopt;
    v[i] = static_cast<double>(value.constant.as<float>()[0]);
  }
  const double count = std::ceil((v[1] - v[0]) / v[2]);
  if (!(count >= 1 && count < 0x1p31))
    return fail(Code::kInvalidArgument, "a range from " + std::to_string(v[0]) + " to " + std::to_string(v[1]) + " in steps of " +
                                            std::to_string(v[2]));
  return static_cast<int64_t>(count);
}

}  // namespace

// The number of elements follows from the operands: at import where they are known, else from data.
Result<void> import_range(NodeImport& n) {
  std::vector<ValueId> operands;
  for (size_t i = 0; i < 3; ++i) {
    LATHE_TRY(operands.emplace_back(), n.value(i));
    if (n.rank(operands[i]) != 0)
      return fail(Code::kInvalidArgument, "an operand has rank " + std::to_string(n.rank(operands[i])) + ", must be 0");
  }
  LATHE_TRY(const auto known, constant_count(n, operands));
  ValueId count = kNoId;
  if (known) {
    LATHE_TRY(count, n.integers_constant("count", {*known}));
  } else {
    LATHE_TRY(count, n.emit("count", Op::kRangeCount, NoAttrs{}, operands));
    LATHE_TRY(count, n.extents("extent", count));
  }
  operands.push_back(count);
  return n.finish(Op::kRange, NoAttrs{}, std::move(operands));
}

}  // namespace lathe::tflite
