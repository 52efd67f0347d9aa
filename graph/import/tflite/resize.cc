// Images resized, and tensors repeated, mirrored and turned round.
#include "graph/import/tflite/importer.h"

namespace lathe::tflite {
namespace {

// Height, then width of [b, h, w, c].
Result<void> finish_resized(NodeImport& n, Op op, ResizeAttrs a) {
  LATHE_TRY(const auto size, n.known_integers(1, "the size"));
  LATHE_TRY(ValueId x, n.value(0));
  if (n.rank(x) != 4) return fail(Code::kUnsupported, "an input of rank " + std::to_string(n.rank(x)) + ", only 4 is supported");
  if (size.size() != 2)
    return fail(Code::kInvalidArgument, "the size has " + std::to_string(size.size()) + " elements, must have 2");
  for (const int64_t s : size)
    if (s < 1 || s > INT32_MAX) return fail(Code::kInvalidArgument, "a size of " + std::to_string(s));
  if (op == Op::kResize) {
    LATHE_TRY(x, n.real(x));
  }
  a.axis = 1;
  a.size = static_cast<int32_t>(size[0]);
  LATHE_TRY(x, n.emit("rows", op, a, {x}));
  a.axis = 2;
  a.size = static_cast<int32_t>(size[1]);
  return n.finish(op, a, {x});
}

Result<std::vector<int64_t>> per_axis(NodeImport& n, ValueId x, const char* what) {
  LATHE_TRY(const auto list, n.known_integers(1, what));
  if (list.size() == n.rank(x)) return list;
  return fail(Code::kInvalidArgument, std::string(what) + " has " + std::to_string(list.size()) + " elements, input has rank " +
                                          std::to_string(n.rank(x)));
}

}  // namespace

Result<void> import_resize_bilinear(NodeImport& n) {
  const auto* o = n.options().options_as_Bilinear();
  ResizeAttrs a;
  a.mode = static_cast<int32_t>(ResizeMode::kLinear);
  const bool corners = o != nullptr && o->align_corners(), centers = o != nullptr && o->half_pixel_centers();
  a.coordinates = static_cast<int32_t>(corners   ? ResizeCoordinates::kAlignCorners
                                       : centers ? ResizeCoordinates::kHalfPixel
                                                 : ResizeCoordinates::kAsymmetric);
  return finish_resized(n, Op::kResize, a);
}

Result<void> import_resize_nearest(NodeImport& n) {
  const auto* o = n.options().options_as_Nearest();
  ResizeAttrs a;
  const bool corners = o != nullptr && o->align_corners(), centers = o != nullptr && o->half_pixel_centers();
  a.coordinates = static_cast<int32_t>(corners   ? ResizeCoordinates::kAlignCorners
                                       : centers ? ResizeCoordinates::kTfHalfPixelForNearest
                                                 : ResizeCoordinates::kAsymmetric);
  a.nearest = static_cast<int32_t>(corners ? ResizeNearest::kRoundPreferCeil : ResizeNearest::kFloor);
  return finish_resized(n, Op::kResizeNearest, a);
}

namespace {

SliceAttrs backwards(int32_t axis, int64_t begin, int64_t end) {
  return {Ints{1, {axis}}, Ints{1, {static_cast<int32_t>(begin)}}, Ints{1, {static_cast<int32_t>(end)}}, Ints{1, {-1}}};
}

// Mirrored with the outermost elements, axis by axis: what lies before it backwards, x, what lies behind it backwards.
Result<void> finish_symmetric(NodeImport& n, ValueId x, const BorderAttrs& a) {
  for (int32_t axis = 0; axis < a.before.count; ++axis) {
    const int32_t before = a.before.values[axis], after = a.after.values[axis];
    if (before == 0 && after == 0) continue;
    const auto extent = n.dim(x, static_cast<size_t>(axis));
    if (!extent) return fail(Code::kUnsupported, "a mirrored dim is not known; --shape can fix it");
    if (before > *extent || after > *extent)
      return fail(Code::kInvalidArgument, "pads of " + std::to_string(before) + " and " + std::to_string(after) +
                                              " on a dim of " + std::to_string(*extent));
    const std::string tag = "axis" + std::to_string(axis);
    std::vector<ValueId> parts{x};
    if (before > 0) {
      LATHE_TRY(const ValueId v, n.emit(tag + ":before", Op::kSlice, backwards(axis, before - 1, INT32_MIN), {x}));
      parts.insert(parts.begin(), v);
    }
    if (after > 0) {
      const int64_t end = *extent == after ? INT32_MIN : *extent - after - 1;
      LATHE_TRY(parts.emplace_back(), n.emit(tag + ":after", Op::kSlice, backwards(axis, *extent - 1, end), {x}));
    }
    LATHE_TRY(x, n.emit(tag, Op::kConcat, AxisAttrs{axis}, std::move(parts), n.quant(x)));
  }
  return n.finish_value(x);
}

}  // namespace

Result<void> import_mirror_pad(NodeImport& n) {
  const auto* o = n.options().options_as_MirrorPad();
  LATHE_TRY(const auto pads, n.known_integers(1, "the pads"));
  LATHE_TRY(const ValueId x, n.value(0));
  if (pads.size() != 2 * n.rank(x))
    return fail(Code::kInvalidArgument, std::to_string(pads.size()) + " pads, input has rank " + std::to_string(n.rank(x)));
  BorderAttrs a;
  a.mode = static_cast<int32_t>(BorderMode::kReflect);
  for (size_t i = 0; i < pads.size(); ++i) {
    if (pads[i] < 0 || pads[i] > INT32_MAX) return fail(Code::kInvalidArgument, "a pad is " + std::to_string(pads[i]));
    Ints& side = i % 2 == 0 ? a.before : a.after;
    side.values[side.count++] = static_cast<int32_t>(pads[i]);
  }
  if (o != nullptr && o->mode() != 0) return finish_symmetric(n, x, a);
  return n.finish(Op::kBorder, a, {x});
}

Result<void> import_tile(NodeImport& n) {
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const auto repeats, per_axis(n, x, "the repeats"));
  TileAttrs a;
  for (const int64_t r : repeats) {
    if (r < 1 || r > INT32_MAX) return fail(Code::kInvalidArgument, "a repeat is " + std::to_string(r));
    a.repeats.values[a.repeats.count++] = static_cast<int32_t>(r);
  }
  return n.finish(Op::kTile, a, {x});
}

Result<void> import_reverse(NodeImport& n) {
  LATHE_TRY(const auto list, n.known_integers(1, "the axes"));
  LATHE_TRY(const ValueId x, n.value(0));
  SliceAttrs a;
  LATHE_TRY(a.axes, n.normalized_axes(list, n.rank(x)));
  a.begins.count = a.ends.count = a.steps.count = a.axes.count;
  for (int32_t i = 0; i < a.axes.count; ++i) {
    a.begins.values[i] = INT32_MAX;
    a.ends.values[i] = INT32_MIN;
    a.steps.values[i] = -1;
  }
  return n.finish(Op::kSlice, a, {x});
}

}  // namespace lathe::tflite
