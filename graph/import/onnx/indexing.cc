// Operators that read and write by index.
#include <cmath>

#include "graph/import/onnx/reshape.h"

namespace lathe::onnx {
namespace {

Result<ScatterReduction> read_reduction(NodeImport& n, int64_t since, int64_t extremes_since) {
  if (n.opset() < since) return ScatterReduction::kNone;
  LATHE_TRY(const std::string_view name, n.text("reduction", "none"));
  if (name == "none") return ScatterReduction::kNone;
  if (name == "add") return ScatterReduction::kAdd;
  if (name == "mul") return ScatterReduction::kMul;
  if (n.opset() >= extremes_since && name == "min") return ScatterReduction::kMin;
  if (n.opset() >= extremes_since && name == "max") return ScatterReduction::kMax;
  return fail(Code::kInvalidArgument, "attribute 'reduction' is '" + std::string(name) + "'");
}

// A whole number that operand i is, whatever its type.
Result<int64_t> known_whole(NodeImport& n, size_t i, const char* what) {
  LATHE_TRY(const auto t, n.constant(i));
  if (t && t->dtype == DType::kF32) {
    LATHE_TRY(const float v, n.known_real(i, what));
    if (v != std::trunc(v) || std::fabs(v) > 0x1p31f)
      return fail(Code::kInvalidArgument, std::string(what) + " is " + std::to_string(v));
    return static_cast<int64_t>(v);
  }
  if (!t && n.type(n.binding(i).value).dtype == DType::kF32)
    return fail(Code::kUnsupported,
                std::string(what) + " '" + std::string(n.proto().inputs[i]) + "' is not constant; --const can fix it");
  LATHE_TRY(const auto list, n.known_integers(i, what));
  if (list.size() != 1) return fail(Code::kInvalidArgument, std::string(what) + " is not one number");
  return list[0];
}

}  // namespace

Result<void> import_gather(NodeImport& n) {
  LATHE_TRY(const int64_t given, n.integer("axis", 0));
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const ValueId indices, n.value(1));
  LATHE_TRY(const int32_t axis, n.normalized_axis(given, n.rank(x)));
  return n.finish(Op::kGather, AxisAttrs{axis}, {x, indices});
}

Result<void> import_gather_elements(NodeImport& n) {
  LATHE_TRY(const int64_t given, n.integer("axis", 0));
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const ValueId indices, n.value(1));
  LATHE_TRY(const int32_t axis, n.normalized_axis(given, n.rank(x)));
  return n.finish(Op::kGatherElements, AxisAttrs{axis}, {x, indices});
}

Result<void> import_gather_nd(NodeImport& n) {
  int64_t batch = 0;
  if (n.opset() >= 12) {
    LATHE_TRY(batch, n.integer("batch_dims", 0));
  }
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const ValueId indices, n.value(1));
  if (batch < 0 || batch > static_cast<int64_t>(kMaxRank))
    return fail(Code::kInvalidArgument, "batch_dims is " + std::to_string(batch));
  return n.finish(Op::kGatherNd, GatherNdAttrs{static_cast<int32_t>(batch)}, {x, indices});
}

Result<void> import_scatter_elements(NodeImport& n) {
  LATHE_TRY(const int64_t given, n.integer("axis", 0));
  LATHE_TRY(const ScatterReduction reduction, read_reduction(n, 16, 18));
  std::vector<ValueId> operands;
  for (size_t i = 0; i < 3; ++i) {
    LATHE_TRY(operands.emplace_back(), n.value(i));
  }
  LATHE_TRY(const int32_t axis, n.normalized_axis(given, n.rank(operands[0])));
  return n.finish(Op::kScatterElements, ScatterAttrs{axis, static_cast<int32_t>(reduction)}, operands);
}

Result<void> import_scatter_nd(NodeImport& n) {
  LATHE_TRY(const ScatterReduction reduction, read_reduction(n, 16, 18));
  std::vector<ValueId> operands;
  for (size_t i = 0; i < 3; ++i) {
    LATHE_TRY(operands.emplace_back(), n.value(i));
  }
  return n.finish(Op::kScatterNd, ScatterAttrs{0, static_cast<int32_t>(reduction)}, operands);
}

Result<void> import_tensor_scatter(NodeImport& n) {
  LATHE_TRY(const int64_t given, n.integer("axis", -2));
  LATHE_TRY(const std::string_view mode, n.text("mode", "linear"));
  if (mode != "linear" && mode != "circular")
    return fail(Code::kInvalidArgument, "attribute 'mode' is '" + std::string(mode) + "'");
  std::vector<ValueId> operands;
  for (size_t i = 0; i < n.input_count(); ++i) {
    if (i == 2 && !n.has_input(2)) continue;
    LATHE_TRY(operands.emplace_back(), n.value(i));
  }
  LATHE_TRY(const int32_t axis, n.normalized_axis(given, n.rank(operands[0])));
  return n.finish(Op::kTensorScatter, TensorScatterAttrs{axis, mode == "circular" ? 1 : 0}, operands);
}

Result<void> import_one_hot(NodeImport& n) {
  LATHE_TRY(const int64_t given, n.integer("axis", -1));
  LATHE_TRY(const int64_t depth, known_whole(n, 1, "the depth"));
  LATHE_TRY(const ValueId indices, n.value(0));
  LATHE_TRY(const ValueId values, n.value(2));
  LATHE_TRY(const int32_t axis, n.normalized_axis(given, n.rank(indices) + 1));
  if (depth < 1 || depth > INT32_MAX) return fail(Code::kInvalidArgument, "the depth is " + std::to_string(depth));
  return n.finish(Op::kOneHot, OneHotAttrs{axis, static_cast<int32_t>(depth)}, {indices, values});
}

// Ones along a diagonal: each row is one hot at its own number plus k, or nowhere.
Result<void> import_eye_like(NodeImport& n) {
  LATHE_TRY(const int64_t k, n.integer("k", 0));
  LATHE_TRY(const auto from, operand_dims(n));
  DType dtype = DType::kF32;
  if (n.has("dtype")) {
    LATHE_TRY(const int64_t number, n.integer("dtype", 1));
    LATHE_TRY(dtype, dtype_of(number < 0 || number > INT32_MAX ? -1 : static_cast<int32_t>(number)));
  } else {
    const Binding b = n.binding(0);
    dtype = b.tensor ? b.tensor->dtype : n.type(b.value).dtype;
  }
  if (from.size() != 2) return fail(Code::kInvalidArgument, "the input has rank " + std::to_string(from.size()) + ", not 2");
  const auto rows = n.dims().value(from[0]), columns = n.dims().value(from[1]);
  if (!rows || !columns) return fail(Code::kUnsupported, "the input's dims must be known; --shape can fix them");
  std::vector<int64_t> places;
  for (int64_t i = 0; i < *rows; ++i) {
    const bool inside = k > -*rows && k < *columns && i + k >= 0;
    places.push_back(inside ? i + k : *columns);
  }
  LATHE_TRY(const ValueId indices, n.integers_constant("places", places));
  ConstTensor values{n.builder().value_name(n.name() + ":values"), DType::kF32, {2}, Constant::of(std::vector<float>{0, 1})};
  LATHE_TRY(ValueId on_off, n.builder().constant(values));
  if (dtype != DType::kF32) {
    LATHE_TRY(on_off, n.emit("cast", Op::kCast, CastAttrs{static_cast<int32_t>(dtype)}, {on_off}));
  }
  return n.finish(Op::kOneHot, OneHotAttrs{1, static_cast<int32_t>(*columns)}, {indices, on_off});
}

Result<void> import_reverse_sequence(NodeImport& n) {
  LATHE_TRY(const int64_t given_batch, n.integer("batch_axis", 1));
  LATHE_TRY(const int64_t given_time, n.integer("time_axis", 0));
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const ValueId lengths, n.value(1));
  LATHE_TRY(const int32_t batch, n.normalized_axis(given_batch, n.rank(x)));
  LATHE_TRY(const int32_t time, n.normalized_axis(given_time, n.rank(x)));
  return n.finish(Op::kReverseSequence, ReverseSequenceAttrs{batch, time}, {x, lengths});
}

}  // namespace lathe::onnx
