// Operators that change or read dims only, and those that do nothing at inference. All become Reshape, Shape and Slice, or no
// node at all; on a constant they give a constant.
#include <algorithm>

#include "graph/import/onnx/expression.h"
#include "graph/import/onnx/reshape.h"

namespace lathe::onnx {
namespace {

Result<void> pass_through(NodeImport& n) {
  const Binding b = n.binding(0);
  if (b.blocked()) return fail(Code::kCancelled, "the operand was not imported");
  n.bind(b);
  return {};
}

// Whether operand 1 is computed by other nodes and not known before the program runs. An input of the model is no such target: it
// may hold a 0 or -1, which cannot be dims, and --const says what it is.
bool target_is_data(NodeImport& n) {
  const Binding b = n.binding(1);
  if (b.tensor || b.blocked() || n.builder().graph.producer(b.value) == nullptr) return false;
  const auto& contents = n.builder().graph.value(b.value).contents;
  return !contents || std::any_of(contents->begin(), contents->end(), [&](Dim d) { return n.dims().depends_on_data(d); });
}

// The target is data: its 0s and its -1 are resolved when they are there.
Result<void> finish_with_data(NodeImport& n, bool allow_zero) {
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const ValueId given, n.value(1));
  LATHE_TRY(const ValueId dims, n.emit("dims", Op::kTargetDims, TargetDimsAttrs{allow_zero ? 1 : 0}, {x, given}));
  LATHE_TRY(const ValueId target, extents(n, dims, "target"));
  return n.finish(Op::kReshape, NoAttrs{}, {x, target});
}

// Whether `dims` can be said with numbers, one -1 and dims of the input.
bool can_be_said(NodeImport& n, const std::vector<Dim>& from, const std::vector<Dim>& dims) {
  return std::count_if(dims.begin(), dims.end(), [&](Dim d) {
           return !n.dims().value(d) && std::find(from.begin(), from.end(), d) == from.end();
         }) <= 1;
}

}  // namespace

Result<void> import_reshape(NodeImport& n) {
  bool allow_zero = false;
  if (n.opset() >= 14) {
    LATHE_TRY(allow_zero, n.flag("allowzero", false));
  }
  LATHE_CHECK_OK(n.known_tensor(1));  // a target that constants make is one from here on
  if (target_is_data(n)) return finish_with_data(n, allow_zero);
  LATHE_TRY(std::vector<Dim> target, n.known_dims(1, "the target dims"));
  LATHE_TRY(const auto from, operand_dims(n));
  bool copies = false;
  for (size_t i = 0; i < target.size(); ++i) {
    if (!n.dims().is(target[i], 0) || allow_zero) continue;
    if (i >= from.size())
      return fail(Code::kInvalidArgument,
                  "target dim " + std::to_string(i) + " is 0, the input has rank " + std::to_string(from.size()));
    target[i] = from[i];
    copies = true;
  }
  LATHE_TRY(const auto dims, reshaped_dims(n, from, target));
  if (!copies && !n.binding(1).tensor && !can_be_said(n, from, dims)) {
    LATHE_TRY(const ValueId x, n.value(0));
    LATHE_TRY(const ValueId given, n.value(1));
    return n.finish(Op::kReshape, NoAttrs{}, {x, given});
  }
  return finish_reshaped(n, dims);
}

// To a matrix: axes before `axis`, and the rest.
Result<void> import_flatten(NodeImport& n) {
  LATHE_TRY(const int64_t given, n.integer("axis", 1));
  LATHE_TRY(const auto from, operand_dims(n));
  const auto rank = static_cast<int64_t>(from.size());
  if (given < -rank || given > rank)
    return fail(Code::kInvalidArgument, "axis " + std::to_string(given) + " is outside a tensor of rank " + std::to_string(rank));
  const auto axis = static_cast<size_t>(given < 0 ? given + rank : given);
  Dim rows = n.dims().constant(1), columns = rows;
  for (size_t i = 0; i < from.size(); ++i) (i < axis ? rows : columns) = n.dims().mul(i < axis ? rows : columns, from[i]);
  if (!rows.valid() || !columns.valid()) return fail(Code::kInvalidArgument, "the flattened dims are too large");
  return finish_reshaped(n, {rows, columns});
}

Result<void> import_squeeze(NodeImport& n) {
  LATHE_TRY(const auto given, n.integers_or_input("axes", 13, 1));
  LATHE_TRY(const auto from, operand_dims(n));
  std::vector<int32_t> axes;
  if (given) {
    LATHE_TRY(axes, n.normalized_axes(*given, from.size()));
  }
  std::vector<Dim> dims;
  for (size_t i = 0; i < from.size(); ++i) {
    const auto v = n.dims().value(from[i]);
    const bool named = std::find(axes.begin(), axes.end(), static_cast<int32_t>(i)) != axes.end();
    if (!given && !v) return fail(Code::kUnsupported, "squeeze without axes needs all dims; --shape can fix them");
    if (named && !v)
      return fail(Code::kUnsupported, "axis " + std::to_string(i) + " has a dim that is not known to be 1; --shape can fix it");
    if (named && v != 1)
      return fail(Code::kInvalidArgument, "axis " + std::to_string(i) + " has " + std::to_string(*v) + " elements, not 1");
    if (!named && (given || v != 1)) dims.push_back(from[i]);
  }
  return finish_reshaped(n, dims);
}

Result<void> import_unsqueeze(NodeImport& n) {
  LATHE_TRY(const auto given, n.integers_or_input("axes", 13, 1));
  if (!given) return fail(Code::kInvalidArgument, "the axes are missing");
  LATHE_TRY(const auto from, operand_dims(n));
  const size_t rank = from.size() + given->size();
  if (rank > kMaxRank)
    return fail(Code::kUnsupported,
                "a result of rank " + std::to_string(rank) + " is over the limit of " + std::to_string(kMaxRank));
  LATHE_TRY(const auto axes, n.normalized_axes(*given, rank));
  std::vector<Dim> dims;
  for (size_t i = 0, next = 0; i < rank; ++i) {
    const bool is_new = std::find(axes.begin(), axes.end(), static_cast<int32_t>(i)) != axes.end();
    dims.push_back(is_new ? n.dims().constant(1) : from[next++]);
  }
  return finish_reshaped(n, dims);
}

Result<void> import_shape(NodeImport& n) {
  int64_t start = 0, end = INT64_MAX;
  if (n.opset() >= 15) {
    LATHE_TRY(start, n.integer("start", 0));
    LATHE_TRY(end, n.integer("end", INT64_MAX));
  }
  LATHE_TRY(const auto dims, operand_dims(n));
  const auto rank = static_cast<int64_t>(dims.size());
  const auto position = [rank](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank); };
  const int64_t first = position(start), last = std::max(first, position(end));

  std::vector<int64_t> numbers;
  for (int64_t i = first; i < last; ++i) {
    const auto v = n.dims().value(dims[static_cast<size_t>(i)]);
    if (!v) break;
    numbers.push_back(*v);
  }
  if (static_cast<int64_t>(numbers.size()) == last - first)
    return n.bind_constant({std::string(n.proto().outputs[0]), DType::kS64, {last - first}, Constant::of(numbers)});
  LATHE_TRY(const ValueId x, n.value(0));
  if (first == 0 && last == rank) return n.finish(Op::kShape, NoAttrs{}, {x});
  LATHE_TRY(const ValueId shape, n.emit("", Op::kShape, NoAttrs{}, {x}));
  SliceAttrs slice;
  slice.axes = Ints{1, {0}};
  slice.begins = Ints{1, {static_cast<int32_t>(first)}};
  slice.ends = Ints{1, {static_cast<int32_t>(last)}};
  slice.steps = Ints{1, {1}};
  return n.finish(Op::kSlice, slice, {shape}, 0, "part");
}

Result<void> import_identity(NodeImport& n) { return pass_through(n); }

namespace {

// Whether elements are dropped: training_mode (an operand from opset 12 on) and a ratio that is not 0.
Result<bool> drops(NodeImport& n) {
  if (!n.has_input(2)) return false;
  LATHE_TRY(const auto training, n.known_tensor(2));
  if (!training)
    return fail(Code::kUnsupported,
                "training_mode '" + std::string(n.proto().inputs[2]) + "' is not constant; --const can fix it");
  if (training->dtype != DType::kBool || training->elems() != 1)
    return fail(Code::kInvalidArgument, "training_mode is not one bool");
  if (training->bytes.bytes[0] == std::byte{0}) return false;
  if (!n.has_input(1)) return true;
  LATHE_TRY(const float ratio, n.known_real(1, "the ratio"));
  return ratio != 0;
}

// A mask of x's dims that keeps everything.
Result<void> full_mask(NodeImport& n) {
  LATHE_TRY(const ValueId x, n.value(0));
  Expression e(n);
  const ValueId same = e.node(Op::kEqual, {x, x});  // false for NaN
  return e.finish(Op::kBitOr, {same, e.number(same, 1)}, 1);
}

}  // namespace

Result<void> import_dropout(NodeImport& n) {
  n.ignore("ratio");
  n.ignore("seed");
  LATHE_TRY(const bool dropping, drops(n));
  if (dropping) return fail(Code::kUnsupported, "training_mode true is not supported");
  if (n.has_output(1)) LATHE_CHECK_OK(full_mask(n));
  return pass_through(n);
}

// Which triangle of the last two axes stays; the diagonal's number is an optional operand.
Result<void> import_trilu(NodeImport& n) {
  LATHE_TRY(const bool upper, n.flag("upper", true));
  std::vector<int64_t> k(1, 0);
  if (n.has_input(1)) {
    LATHE_TRY(k, n.known_integers(1, "k"));
  }
  if (k.size() != 1) return fail(Code::kInvalidArgument, "k has " + std::to_string(k.size()) + " elements, not 1");
  LATHE_TRY(const ValueId x, n.value(0));
  const auto diagonal = static_cast<int32_t>(std::clamp<int64_t>(k[0], INT32_MIN / 2, INT32_MAX / 2));
  return n.finish(Op::kTrilu, TriluAttrs{upper ? 1 : 0, diagonal}, {x});
}

Result<void> import_det(NodeImport& n) {
  LATHE_TRY(const ValueId x, n.value(0));
  return n.finish(Op::kDet, NoAttrs{}, {x});
}

}  // namespace lathe::onnx
