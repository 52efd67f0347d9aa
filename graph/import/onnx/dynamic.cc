// Operators whose result's size is computed: by expressions where inference knows the operands, else by data (op Extents).
#include <algorithm>
#include <cmath>

#include "graph/import/onnx/expression.h"
#include "graph/import/onnx/reshape.h"

namespace lathe::onnx {
namespace {

// All elements in one axis.
Result<ValueId> flattened(NodeImport& n, ValueId x) {
  if (n.rank(x) == 1) return x;
  LATHE_TRY(const ValueId target, n.integers_constant("flat", {-1}));
  return n.emit("flat", Op::kReshape, NoAttrs{}, {x, target});
}

// How many elements a range of constants has; nothing if an operand is computed.
template <class T> Result<std::optional<int64_t>> count_constants(NodeImport& n) {
  double v[3] = {};
  for (size_t i = 0; i < 3; ++i) {
    LATHE_TRY(const auto t, n.constant(i));
    if (!t || t->elems() != 1) return std::nullopt;
    v[i] = static_cast<double>(t->bytes.as<T>()[0]);
  }
  const double count = std::ceil((v[1] - v[0]) / v[2]);
  if (!(count < 0x1p31)) return fail(Code::kInvalidArgument, "a range with a delta of " + std::to_string(v[2]) + " has no end");
  return static_cast<int64_t>(std::max(count, 0.0));
}

Result<std::optional<int64_t>> constant_count(NodeImport& n) {
  LATHE_TRY(const auto start, n.constant(0));
  if (!start) return std::nullopt;
  switch (start->dtype) {
    case DType::kF32: return count_constants<float>(n);
    case DType::kS16: return count_constants<int16_t>(n);
    case DType::kS32: return count_constants<int32_t>(n);
    case DType::kS64: return count_constants<int64_t>(n);
    default: return std::nullopt;
  }
}

}  // namespace

Result<ValueId> extents(NodeImport& n, ValueId v, const std::string& tag) {
  if (n.builder().graph.value(v).contents) return v;
  LATHE_TRY(const auto known, n.builder().known({v, nullptr}));
  if (known) return n.builder().constant(*known);
  const ExtentsAttrs attrs{static_cast<int32_t>(n.dims().unused_data_tensor())};
  return n.emit(tag, Op::kExtents, attrs, {v});
}

namespace {

// Limit i of `limits` as ONNX counts it: from the end if it is negative, then clamped to [low, high].
ValueId slice_limit(Expression& e, ValueId limits, size_t i, ValueId dim, int64_t low, ValueId high) {
  const auto number = [&](int64_t v) { return e.constant(DType::kS64, {}, {static_cast<double>(v)}); };
  const ValueId given = e.node(Op::kGather, {limits, number(static_cast<int64_t>(i))}, AxisAttrs{0});
  const ValueId negative = e.node(Op::kLess, {given, number(0)});
  const ValueId place = e.node(Op::kWhere, {negative, e.node(Op::kAdd, {given, dim}), given});
  return e.node(Op::kMin, {e.node(Op::kMax, {place, number(low)}), high});
}

}  // namespace

Result<void> finish_computed_slice(NodeImport& n, const std::vector<int32_t>& axes, const std::vector<int64_t>& steps) {
  Expression e(n);
  ValueId x = e.operand(0);
  const ValueId shape = e.node(Op::kShape, {x});
  const ValueId starts = e.cast(e.operand(1), DType::kS64), ends = e.cast(e.operand(2), DType::kS64);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto number = [&](int64_t v) { return e.constant(DType::kS64, {}, {static_cast<double>(v)}); };
    const ValueId dim = e.node(Op::kGather, {shape, number(axes[i])}, AxisAttrs{0});
    const bool forward = steps[i] > 0;
    const ValueId high = forward ? dim : e.node(Op::kSub, {dim, number(1)});
    const ValueId start = slice_limit(e, starts, i, dim, 0, high), end = slice_limit(e, ends, i, dim, forward ? 0 : -1, high);
    std::vector<ValueId> range = {start, end, number(steps[i])};
    const ValueId count = e.node(Op::kRangeCount, range);
    LATHE_CHECK_OK(e.status());
    LATHE_TRY(range.emplace_back(), extents(n, count, "extent" + std::to_string(i)));
    x = e.node(Op::kGather, {x, e.node(Op::kRange, range)}, AxisAttrs{axes[i]});
  }
  return e.finish(x);
}

Result<void> import_non_zero(NodeImport& n) {
  LATHE_TRY(const ValueId x, n.value(0));
  if (n.rank(x) == 0) return fail(Code::kUnsupported, "a scalar input is not supported");
  LATHE_TRY(const auto all, n.emit_all("all", Op::kNonZero, NoAttrs{}, {x}));
  LATHE_TRY(const ValueId count, extents(n, all[1], "count"));
  return n.finish(Op::kTrim, AxisAttrs{1}, {all[0], count});
}

Result<void> import_compress(NodeImport& n) {
  const bool flat = !n.has("axis");
  LATHE_TRY(const int64_t given, n.integer("axis", 0));
  LATHE_TRY(ValueId x, n.value(0));
  LATHE_TRY(const ValueId condition, n.value(1));
  if (flat) {
    LATHE_TRY(x, flattened(n, x));
  }
  LATHE_TRY(const int32_t axis, n.normalized_axis(given, n.rank(x)));
  LATHE_TRY(const auto all, n.emit_all("all", Op::kCompress, AxisAttrs{axis}, {x, condition}));
  LATHE_TRY(const ValueId count, extents(n, all[1], "count"));
  return n.finish(Op::kTrim, AxisAttrs{axis}, {all[0], count});
}

Result<void> import_unique(NodeImport& n) {
  const bool flat = !n.has("axis");
  LATHE_TRY(const int64_t given, n.integer("axis", 0));
  LATHE_TRY(const bool sorted, n.flag("sorted", true));
  LATHE_TRY(ValueId x, n.value(0));
  if (flat) {
    LATHE_TRY(x, flattened(n, x));
  }
  LATHE_TRY(const int32_t axis, n.normalized_axis(given, n.rank(x)));
  LATHE_TRY(const auto all, n.emit_all("all", Op::kUnique, UniqueAttrs{axis, sorted ? 1 : 0}, {x}));
  LATHE_TRY(const ValueId count, extents(n, all[4], "count"));
  LATHE_CHECK_OK(n.finish(Op::kTrim, AxisAttrs{axis}, {all[0], count}));
  if (n.has_output(2)) n.bind({all[2], nullptr}, 2);
  for (const size_t i : {1u, 3u}) {
    if (!n.has_output(i)) continue;
    LATHE_CHECK_OK(n.finish(Op::kTrim, AxisAttrs{0}, {all[i], count}, i, "trim" + std::to_string(i)));
  }
  return {};
}

Result<void> import_non_max_suppression(NodeImport& n) {
  LATHE_TRY(const bool center, n.flag("center_point_box", false));
  std::vector<ValueId> operands;
  for (size_t i = 0; i < n.input_count(); ++i) {
    operands.push_back(kNoId);
    if (!n.has_input(i)) continue;
    LATHE_TRY(operands.back(), n.value(i));
  }
  LATHE_TRY(const auto all, n.emit_all("all", Op::kNonMaxSuppression, NmsAttrs{center ? 1 : 0}, operands));
  LATHE_TRY(const ValueId count, extents(n, all[1], "count"));
  return n.finish(Op::kTrim, AxisAttrs{0}, {all[0], count});
}

Result<void> import_range(NodeImport& n) {
  n.ignore("stash_type");  // ranges of small floats are float32 here
  std::vector<ValueId> operands;
  for (size_t i = 0; i < 3; ++i) {
    LATHE_TRY(operands.emplace_back(), n.value(i));
  }
  LATHE_TRY(const auto known, constant_count(n));
  if (known) {
    LATHE_TRY(operands.emplace_back(), n.integers_constant("count", {*known}));
  } else {
    LATHE_TRY(const ValueId count, n.emit("count", Op::kRangeCount, NoAttrs{}, operands));
    LATHE_TRY(operands.emplace_back(), extents(n, count, "extent"));
  }
  return n.finish(Op::kRange, NoAttrs{}, operands);
}

Result<void> import_tile(NodeImport& n) {
  LATHE_TRY(const auto repeats, n.known_integers(1, "the repeats"));
  LATHE_TRY(const ValueId x, n.value(0));
  if (repeats.size() != n.rank(x))
    return fail(Code::kInvalidArgument, "the repeats have " + std::to_string(repeats.size()) + " entries, the input has rank " +
                                            std::to_string(n.rank(x)));
  TileAttrs attrs;
  for (int64_t r : repeats) {
    if (r == 0) return fail(Code::kUnsupported, "a repeat of 0 is not supported: tensors cannot be empty");
    if (r < 0 || r > INT32_MAX) return fail(Code::kInvalidArgument, "a repeat is " + std::to_string(r));
    attrs.repeats.values[attrs.repeats.count++] = static_cast<int32_t>(r);
  }
  return n.finish(Op::kTile, attrs, {x});
}

}  // namespace lathe::onnx
