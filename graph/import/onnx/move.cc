// Operators that move data: transpose, concat, slice, split, pad.
#include <algorithm>
#include <numeric>

#include "graph/import/onnx/reshape.h"

namespace lathe::onnx {
namespace {

// Bounds of a slice: INT64_MAX and the like mean "to the end", and so does every number past 31 bits.
int32_t clamped(int64_t v) { return static_cast<int32_t>(std::clamp<int64_t>(v, INT32_MIN, INT32_MAX)); }

void append(Ints& list, int32_t v) { list.values[list.count++] = v; }

Result<void> expect_length(const std::vector<int64_t>& list, const char* what, size_t count) {
  if (list.size() == count) return {};
  return fail(Code::kInvalidArgument,
              std::string(what) + " has " + std::to_string(list.size()) + " entries, not " + std::to_string(count));
}

std::vector<int64_t> first_axes(size_t count) {
  std::vector<int64_t> axes(count);
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

// Sizes of a split's results along its axis.
Result<std::vector<int64_t>> split_sizes(NodeImport& n, const std::optional<std::vector<int64_t>>& given, int64_t num_outputs,
                                         std::optional<int64_t> size) {
  const auto count = static_cast<int64_t>(n.proto().outputs.size());
  if (given) {
    LATHE_CHECK_OK(expect_length(*given, "split", static_cast<size_t>(count)));
    int64_t sum = 0;
    for (int64_t s : *given) {
      if (s < 0 || s > INT32_MAX) return fail(Code::kInvalidArgument, "split has the entry " + std::to_string(s));
      sum += s;
    }
    if (size && sum != *size)
      return fail(Code::kInvalidArgument,
                  "the sizes add up to " + std::to_string(sum) + ", the axis has " + std::to_string(*size));
    return *given;
  }
  if (num_outputs != 0 && num_outputs != count)
    return fail(Code::kInvalidArgument,
                "num_outputs is " + std::to_string(num_outputs) + ", the node has " + std::to_string(count) + " outputs");
  if (!size) return fail(Code::kUnsupported, "a split into equal parts needs the size of its axis; --shape can fix it");
  const int64_t part = (*size + count - 1) / count, last = *size - part * (count - 1);
  // Only num_outputs (opset 18) allows a smaller last part.
  if (last < 1 || (num_outputs == 0 && last != part))
    return fail(Code::kInvalidArgument,
                std::to_string(*size) + " elements cannot be split into " + std::to_string(count) + " parts");
  std::vector<int64_t> sizes(static_cast<size_t>(count), part);
  sizes.back() = last;
  return sizes;
}

struct Slices {
  std::optional<std::vector<int64_t>> starts, ends, axes, steps;
};

// Attributes before opset 10, inputs from then on.
Result<Slices> read_slices(NodeImport& n) {
  Slices s;
  LATHE_TRY(s.starts, n.integers_or_input("starts", 10, 1));
  LATHE_TRY(s.ends, n.integers_or_input("ends", 10, 2));
  LATHE_TRY(s.axes, n.integers_or_input("axes", 10, 3));
  if (n.opset() >= 10 && n.has_input(4)) {
    LATHE_TRY(s.steps, n.known_integers(4, "steps"));
  }
  if (!s.starts || !s.ends) return fail(Code::kInvalidArgument, "starts or ends are missing");
  if (!s.axes) s.axes = first_axes(s.starts->size());
  if (!s.steps) s.steps = std::vector<int64_t>(s.starts->size(), 1);
  LATHE_CHECK_OK(expect_length(*s.ends, "ends", s.starts->size()));
  LATHE_CHECK_OK(expect_length(*s.axes, "axes", s.starts->size()));
  LATHE_CHECK_OK(expect_length(*s.steps, "steps", s.starts->size()));
  return s;
}

// Padding with the input's own elements; what negative pads take away goes first.
Result<void> finish_border(NodeImport& n, ValueId x, const PadAttrs& pads, BorderMode mode) {
  PadAttrs cut = pads;
  BorderAttrs border{pads.before, pads.after, static_cast<int32_t>(mode)};
  bool cuts = false;
  for (int32_t i = 0; i < pads.before.count; ++i) {
    cuts = cuts || pads.before[i] < 0 || pads.after[i] < 0;
    cut.before.values[i] = std::min(pads.before[i], 0);
    cut.after.values[i] = std::min(pads.after[i], 0);
    border.before.values[i] = std::max(pads.before[i], 0);
    border.after.values[i] = std::max(pads.after[i], 0);
  }
  if (cuts) {
    LATHE_TRY(x, n.emit("cut", Op::kPad, cut, {x}));
  }
  return n.finish(Op::kBorder, border, {x});
}

// The value that constant padding fills in.
Result<float> pad_value(NodeImport& n) {
  if (n.opset() < 11) return n.real("value", 0.0f);
  if (!n.has_input(2)) return 0.0f;
  return n.known_real(2, "the padding value");
}

}  // namespace

Result<void> import_transpose(NodeImport& n) {
  LATHE_TRY(const auto given, n.integers("perm"));
  LATHE_TRY(const auto data, n.weight(0));
  size_t rank = 0;
  if (data) rank = data->dims.size();
  else {
    LATHE_TRY(const ValueId x, n.value(0));
    rank = n.rank(x);
  }
  std::vector<int64_t> axes = first_axes(rank);
  std::reverse(axes.begin(), axes.end());
  if (given) axes = *given;
  LATHE_CHECK_OK(expect_length(axes, "perm", rank));
  LATHE_TRY(const auto perm, n.normalized_axes(axes, rank));
  if (data) return n.bind_constant(permuted(*data, perm));
  PermAttrs attrs;
  for (int32_t axis : perm) append(attrs.perm, axis);
  LATHE_TRY(const ValueId x, n.value(0));
  return n.finish(Op::kTranspose, attrs, {x});
}

Result<void> import_concat(NodeImport& n) {
  if (!n.has("axis")) return fail(Code::kInvalidArgument, "attribute 'axis' is missing");
  LATHE_TRY(const int64_t given, n.integer("axis", 0));
  std::vector<ValueId> operands;
  for (size_t i = 0; i < n.input_count(); ++i) {
    LATHE_TRY(operands.emplace_back(), n.value(i));
  }
  LATHE_TRY(const int32_t axis, n.normalized_axis(given, n.rank(operands[0])));
  if (operands.size() == 1) {
    n.bind({operands[0], nullptr});
    return {};
  }
  return n.finish(Op::kConcat, AxisAttrs{axis}, operands);
}

namespace {

// Whether starts or ends are there, but as numbers that are not known when the model is imported.
bool limits_are_computed(NodeImport& n) {
  if (n.opset() < 10) return false;
  for (const size_t i : {1u, 2u}) {
    if (!n.has_input(i) || n.binding(i).blocked()) return false;
    // An input of the model is fixed by --const, which gives a better program.
    const Binding b = n.binding(i);
    if (!b.tensor && n.builder().graph.producer(b.value) == nullptr) return false;
  }
  const auto starts = n.known_integers(1, "starts"), ends = n.known_integers(2, "ends");
  return (!starts && starts.error().code == Code::kUnsupported) || (!ends && ends.error().code == Code::kUnsupported);
}

Result<void> import_computed_slice(NodeImport& n) {
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const ValueId starts, n.value(1));
  const auto count = n.dims().value(n.rank(starts) == 1 ? n.type(starts).dims[0] : Dim{});
  if (!count) return fail(Code::kUnsupported, "the number of starts is not known");
  std::vector<int64_t> axes = first_axes(static_cast<size_t>(*count)), steps(static_cast<size_t>(*count), 1);
  if (n.has_input(3)) {
    LATHE_TRY(axes, n.known_integers(3, "axes"));
  }
  if (n.has_input(4)) {
    LATHE_TRY(steps, n.known_integers(4, "steps"));
  }
  LATHE_CHECK_OK(expect_length(axes, "axes", static_cast<size_t>(*count)));
  LATHE_CHECK_OK(expect_length(steps, "steps", static_cast<size_t>(*count)));
  for (int64_t s : steps)
    if (s == 0 || s < INT32_MIN || s > INT32_MAX) return fail(Code::kInvalidArgument, "a step is " + std::to_string(s));
  LATHE_TRY(const auto normal, n.normalized_axes(axes, n.rank(x)));
  return finish_computed_slice(n, normal, steps);
}

}  // namespace

Result<void> import_slice(NodeImport& n) {
  if (limits_are_computed(n)) return import_computed_slice(n);
  LATHE_TRY(const Slices s, read_slices(n));
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const auto axes, n.normalized_axes(*s.axes, n.rank(x)));
  SliceAttrs attrs;
  for (size_t i = 0; i < axes.size(); ++i) {
    if ((*s.steps)[i] == 0) return fail(Code::kInvalidArgument, "a step of axis " + std::to_string(axes[i]) + " is 0");
    append(attrs.axes, axes[i]);
    append(attrs.begins, clamped((*s.starts)[i]));
    append(attrs.ends, clamped((*s.ends)[i]));
    append(attrs.steps, clamped((*s.steps)[i]));
  }
  return n.finish(Op::kSlice, attrs, {x});
}

// One slice per result.
Result<void> import_split(NodeImport& n) {
  LATHE_TRY(const int64_t given_axis, n.integer("axis", 0));
  int64_t num_outputs = 0;
  if (n.opset() >= 18) {
    LATHE_TRY(num_outputs, n.integer("num_outputs", 0));
  }
  LATHE_TRY(const auto given, n.integers_or_input("split", 13, 1));
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const int32_t axis, n.normalized_axis(given_axis, n.rank(x)));
  LATHE_TRY(const auto sizes, split_sizes(n, given, num_outputs, n.dim(x, static_cast<size_t>(axis))));
  int64_t begin = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    SliceAttrs attrs;
    append(attrs.axes, axis);
    append(attrs.begins, clamped(begin));
    begin += sizes[i];
    append(attrs.ends, clamped(begin));
    append(attrs.steps, 1);
    if (!n.has_output(i)) continue;
    LATHE_CHECK_OK(n.finish(Op::kSlice, attrs, {x}, i, std::to_string(i)));
  }
  return {};
}

// `pads` has the paddings before all axes, then those after; from opset 18 on, of `axes` only.
Result<void> import_pad(NodeImport& n) {
  LATHE_TRY(const std::string_view mode, n.text("mode", "constant"));
  if (mode != "constant" && mode != "reflect" && mode != "edge" && (mode != "wrap" || n.opset() < 19))
    return fail(Code::kInvalidArgument, "attribute 'mode' is '" + std::string(mode) + "'");
  PadAttrs attrs;
  LATHE_TRY(const auto pads, n.integers_or_input("pads", 11, 1));
  LATHE_TRY(attrs.value, pad_value(n));
  std::optional<std::vector<int64_t>> given_axes;
  if (n.has_input(3)) {
    LATHE_TRY(given_axes, n.integers_or_input("axes", 18, 3));
  }
  if (!pads) return fail(Code::kInvalidArgument, "the pads are missing");
  LATHE_TRY(const ValueId x, n.value(0));
  const size_t rank = n.rank(x);
  LATHE_TRY(const auto axes, n.normalized_axes(given_axes ? *given_axes : first_axes(rank), rank));
  LATHE_CHECK_OK(expect_length(*pads, "pads", 2 * axes.size()));
  attrs.before.count = attrs.after.count = static_cast<int32_t>(rank);
  for (size_t i = 0; i < axes.size(); ++i) {
    attrs.before.values[axes[i]] = clamped((*pads)[i]);
    attrs.after.values[axes[i]] = clamped((*pads)[axes.size() + i]);
  }
  if (mode == "constant") return n.finish(Op::kPad, attrs, {x});
  return finish_border(n, x, attrs, mode == "reflect" ? BorderMode::kReflect : mode == "edge" ? BorderMode::kEdge : BorderMode::kWrap);
}

}  // namespace lathe::onnx
