// Operators that find elements by index or by value.
#include <algorithm>

#include "graph/import/tflite/importer.h"

namespace lathe::tflite {
namespace {

// v as [.., 1].
Result<ValueId> with_last_axis(NodeImport& n, const std::string& tag, ValueId v) {
  std::vector<Dim> dims = n.type(v).dims;
  dims.push_back(n.dims().constant(1));
  return n.reshaped(tag, v, dims);
}

// v, plain integers, as the integers that output `output` has.
Result<void> finish_integers(NodeImport& n, ValueId v, size_t output) {
  LATHE_TRY(const DType to, dtype_of(n.output(output)));
  if (n.type(v).dtype == to) return n.finish_value(v, output);
  return n.finish(Op::kCast, CastAttrs{static_cast<int32_t>(to)}, {v}, output);
}

}  // namespace

// With batch dims the indices are those of each entry of the axes before: tuples of one number.
Result<void> import_gather(NodeImport& n) {
  const auto* o = n.options().options_as_Gather();
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(ValueId indices, n.value(1));
  LATHE_TRY(const int32_t axis, n.normalized_axis(o == nullptr ? 0 : o->axis(), n.rank(x)));
  const int32_t given = o == nullptr ? 0 : o->batch_dims();
  const int32_t batch = given < 0 ? given + static_cast<int32_t>(n.rank(indices)) : given;
  if (batch == 0) return n.finish(Op::kGather, AxisAttrs{axis}, {x, indices});
  if (batch != axis)
    return fail(Code::kUnsupported,
                std::to_string(batch) + " batch dims with axis " + std::to_string(axis) + ", only equal ones are supported");
  LATHE_TRY(indices, with_last_axis(n, "tuples", indices));
  return n.finish(Op::kGatherNd, GatherNdAttrs{batch}, {x, indices});
}

Result<void> import_gather_nd(NodeImport& n) {
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const ValueId indices, n.value(1));
  return n.finish(Op::kGatherNd, GatherNdAttrs{}, {x, indices});
}

// Rows of the second operand.
Result<void> import_embedding_lookup(NodeImport& n) {
  LATHE_TRY(const ValueId indices, n.value(0));
  LATHE_TRY(const ValueId x, n.value(1));
  return n.finish(Op::kGather, AxisAttrs{0}, {x, indices});
}

// Zeros to which the updates are added.
Result<void> import_scatter_nd(NodeImport& n) {
  LATHE_TRY(const ValueId indices, n.value(0));
  LATHE_TRY(const ValueId updates, n.value(1));
  LATHE_TRY(const ValueId shape, n.value(2));
  if (n.quant(updates)) return fail(Code::kUnsupported, "quantized updates are not supported");
  LATHE_TRY(const ValueId zero, n.number("zero", n.type(updates).dtype, 0));
  LATHE_TRY(const ValueId zeros, n.emit("zeros", Op::kExpand, NoAttrs{}, {zero, shape}));
  return n.finish(Op::kScatterNd, ScatterAttrs{0, static_cast<int32_t>(ScatterReduction::kAdd)}, {zeros, indices, updates});
}

// Here an index below 0 is nowhere; for the op it counts from the end.
Result<void> import_one_hot(NodeImport& n) {
  const auto* o = n.options().options_as_OneHot();
  LATHE_TRY(const auto depth, n.known_integers(1, "the depth"));
  LATHE_TRY(ValueId indices, n.value(0));
  if (depth.size() != 1 || depth[0] < 1 || depth[0] > INT32_MAX)
    return fail(Code::kInvalidArgument, "the depth is " + (depth.empty() ? "missing" : std::to_string(depth[0])));
  LATHE_TRY(const int32_t axis, n.normalized_axis(o == nullptr ? -1 : o->axis(), n.rank(indices) + 1));
  const DType type = n.type(indices).dtype;
  LATHE_TRY(const ValueId zero, n.number("zero", type, 0));
  LATHE_TRY(const ValueId nowhere, n.number("nowhere", type, depth[0]));
  LATHE_TRY(const ValueId below, n.emit("below", Op::kLess, NoAttrs{}, {indices, zero}));
  LATHE_TRY(indices, n.emit("indices", Op::kWhere, NoAttrs{}, {below, nowhere, indices}));
  std::vector<ValueId> off_on;
  for (const size_t i : {3, 2}) {
    LATHE_TRY(ValueId v, n.value(i));
    LATHE_TRY(v, n.real(v));
    LATHE_TRY(off_on.emplace_back(), n.reshaped(i == 3 ? "off" : "on", v, {n.dims().constant(1)}));
  }
  LATHE_TRY(const ValueId values, n.emit("values", Op::kConcat, AxisAttrs{0}, std::move(off_on)));
  return n.finish(Op::kOneHot, OneHotAttrs{axis, static_cast<int32_t>(depth[0])}, {indices, values});
}

// The largest of the last axis, the first of equal ones first, and where they are.
Result<void> import_top_k(NodeImport& n) {
  LATHE_TRY(const auto k, n.known_integers(1, "k"));
  LATHE_TRY(ValueId x, n.value(0));
  LATHE_TRY(x, n.real(x));
  if (k.size() != 1 || k[0] < 1 || k[0] > INT32_MAX)
    return fail(Code::kInvalidArgument, "k is " + (k.empty() ? "missing" : std::to_string(k[0])));
  if (n.rank(x) == 0 || n.op().outputs.size() != 2)
    return fail(Code::kInvalidArgument, "rank " + std::to_string(n.rank(x)) + " and " + std::to_string(n.op().outputs.size()) +
                                            " outputs, must be at least 1 and 2");
  const TopKAttrs attrs{static_cast<int32_t>(n.rank(x)) - 1, static_cast<int32_t>(k[0]), 1};
  LATHE_TRY(const auto found, n.emit_all("found", Op::kTopK, attrs, {x}));
  LATHE_CHECK_OK(n.finish_value(found[0], 0));
  return finish_integers(n, found[1], 1);
}

// Where the operand is true (not 0): one row of indices per element. How many there are depends on data.
Result<void> import_where(NodeImport& n) {
  LATHE_TRY(ValueId x, n.value(0));
  LATHE_TRY(x, n.real(x));
  if (n.rank(x) == 0) return fail(Code::kUnsupported, "a scalar input is not supported");
  LATHE_TRY(const auto all, n.emit_all("all", Op::kNonZero, NoAttrs{}, {x}));
  LATHE_TRY(const ValueId count, n.extents("count", all[1]));
  LATHE_TRY(const ValueId places, n.emit("places", Op::kTrim, AxisAttrs{1}, {all[0], count}));
  LATHE_TRY(const ValueId rows, n.emit("rows", Op::kTranspose, PermAttrs{Ints{2, {1, 0}}}, {places}));
  return finish_integers(n, rows, 0);
}

Result<void> import_reverse_sequence(NodeImport& n) {
  const auto* o = n.options().options_as_ReverseSequence();
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const ValueId lengths, n.value(1));
  ReverseSequenceAttrs a;
  LATHE_TRY(a.batch_axis, n.normalized_axis(o == nullptr ? 0 : o->batch_axis(), n.rank(x)));
  LATHE_TRY(a.time_axis, n.normalized_axis(o == nullptr ? 0 : o->time_axis(), n.rank(x)));
  return n.finish(Op::kReverseSequence, a, {x, lengths});
}

// Along one axis: the places of the update are its first one, kept inside, and those behind it.
Result<void> import_dynamic_update_slice(NodeImport& n) {
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const ValueId update, n.value(1));
  LATHE_TRY(ValueId start, n.value(2));
  const size_t rank = n.rank(x);
  if (n.rank(update) != rank || rank == 0)
    return fail(Code::kInvalidArgument,
                "ranks " + std::to_string(rank) + " and " + std::to_string(n.rank(update)) + " do not fit together");
  if (n.type(start).dims != std::vector<Dim>{n.dims().constant(static_cast<int64_t>(rank))})
    return fail(Code::kInvalidArgument, "there is not one start per axis");
  size_t axis = 0, differing = 0;
  for (size_t i = 0; i < rank; ++i)
    if (n.type(x).dims[i] != n.type(update).dims[i]) axis = i, ++differing;
  if (differing > 1) return fail(Code::kUnsupported, "an update that is smaller along several axes is not supported");
  const auto whole = n.dim(x, axis), part = n.dim(update, axis);
  if (!whole || !part) return fail(Code::kUnsupported, "its dims are not known; --shape can fix them");
  if (*part < 1 || *part > *whole)
    return fail(Code::kInvalidArgument, "an update of " + std::to_string(*part) + " in a dim of " + std::to_string(*whole));
  const auto at = static_cast<int32_t>(axis);
  const SliceAttrs own{Ints{1, {0}}, Ints{1, {at}}, Ints{1, {at + 1}}, Ints{1, {1}}};
  LATHE_TRY(start, n.emit("start", Op::kSlice, own, {start}));
  const DType type = n.type(start).dtype;
  LATHE_TRY(const ValueId first, n.number("first", type, 0));
  LATHE_TRY(const ValueId last, n.number("last", type, *whole - *part));
  LATHE_TRY(start, n.emit("low", Op::kMax, NoAttrs{}, {start, first}));
  LATHE_TRY(start, n.emit("high", Op::kMin, NoAttrs{}, {start, last}));
  LATHE_TRY(const ValueId limit, n.number("limit", type, *part));
  LATHE_TRY(const ValueId one, n.number("one", type, 1));
  LATHE_TRY(const ValueId offsets, n.emit("offsets", Op::kRange, NoAttrs{}, {first, limit, one}));
  LATHE_TRY(ValueId places, n.emit("places", Op::kAdd, BinaryAttrs{}, {start, offsets}));
  std::vector<Dim> line(rank, n.dims().constant(1));
  line[axis] = n.dims().constant(*part);
  LATHE_TRY(places, n.reshaped("line", places, line));
  LATHE_TRY(const ValueId shape, n.emit("shape", Op::kShape, NoAttrs{}, {update}));
  LATHE_TRY(places, n.emit("all_places", Op::kExpand, NoAttrs{}, {places, shape}));
  return n.finish(Op::kScatterElements, ScatterAttrs{at, static_cast<int32_t>(ScatterReduction::kNone)}, {x, places, update});
}

}  // namespace lathe::tflite
