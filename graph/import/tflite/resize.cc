// Images resized, and tensors repeated, mirrored and turned round.
#include "graph/import/tflite/importer.h"

namespace lathe::tflite {
namespace {


// Height, then width of [b, h, w, c].
Result<void> finish_resized(NodeImport& n, Op op, ResizeAttrs a) {
  LATHE_TRY(const auto size, n.known_integers(1, "the size"));
  LATHE_TRY(ValueId x, n.value(0));
  if (n.rank(x) != 4) return fail(Code::kUnsupported, "an input of rank " + std::to_string(n.rank(x)) + ", only 4 is supported");
  if (size.size() != 2) return fail(Code::kInvalidArgument, "the size has " + std::to_string(size.size()) + " elements, must have 2");
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
  return fail(Code::kInvalidArgument,
              std::string(what) + " has " + std::to_string(list.size()) + " elements, input has rank " + std::to_string(n.rank(x)));
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

Result<void> import_mirror_pad(NodeImport& n) {
  const auto* o = n.options().options_as_MirrorPad();
  if (o != nullptr && o->mode() != 0) return fail(Code::kUnsupported, "mirroring with the outermost element");
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

Result<void> import_broadcast_to(NodeImport& n) {
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const ValueId shape, n.value(1));
  return n.finish(Op::kExpand, NoAttrs{}, {x, shape});
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

Result<void> import_gather_nd(NodeImport& n) {
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const ValueId indices, n.value(1));
  return n.finish(Op::kGatherNd, GatherNdAttrs{}, {x, indices});
}

}  // namespace lathe::tflite
