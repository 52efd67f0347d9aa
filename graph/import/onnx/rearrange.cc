// Operators that are reshapes, transposes, paddings and products of others: DepthToSpace, SpaceToDepth, CenterCropPad, Size,
// AffineGrid, Col2Im, RoiAlign.
#include <algorithm>
#include <cmath>

#include "graph/import/onnx/reshape.h"

namespace lathe::onnx {
namespace {

Result<int64_t> read_blocksize(NodeImport& n, ValueId x) {
  LATHE_TRY(const int64_t b, n.integer("blocksize", 0));
  if (b < 1 || b > 1 << 15) return fail(Code::kInvalidArgument, "attribute 'blocksize' is " + std::to_string(b));
  if (n.rank(x) != 4) return fail(Code::kInvalidArgument, "the input has rank " + std::to_string(n.rank(x)) + ", not 4");
  return b;
}

PermAttrs perm_of(std::initializer_list<int32_t> axes) {
  PermAttrs a;
  for (int32_t axis : axes) a.perm.values[a.perm.count++] = axis;
  return a;
}

// x in dims `split`, transposed, in dims `merged`.
Result<void> finish_blocks(NodeImport& n, ValueId x, const std::vector<Dim>& split, const PermAttrs& perm,
                           const std::vector<Dim>& merged) {
  LATHE_TRY(const ValueId blocks, reshaped(n, "blocks", x, split));
  LATHE_TRY(const ValueId moved, n.emit("moved", Op::kTranspose, perm, {blocks}));
  return finish_reshaped(n, moved, merged);
}

Result<void> expect_divides(NodeImport& n, Dim d, int64_t by, const char* what) {
  const auto v = n.dims().value(d);
  if (!v || *v % by == 0) return {};
  return fail(Code::kInvalidArgument, std::to_string(*v) + " " + what + " do not divide into blocks of " + std::to_string(by));
}

}  // namespace

Result<void> import_depth_to_space(NodeImport& n) {
  std::string_view mode = "DCR";
  if (n.opset() >= 11) {
    LATHE_TRY(mode, n.text("mode", "DCR"));
  }
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const int64_t b, read_blocksize(n, x));
  if (mode != "DCR" && mode != "CRD") return fail(Code::kInvalidArgument, "attribute 'mode' is '" + std::string(mode) + "'");
  const std::vector<Dim> d = n.type(x).dims;
  LATHE_CHECK_OK(expect_divides(n, d[1], b * b, "channels"));
  DimTable& t = n.dims();
  const Dim block = t.constant(b), depth = t.floordiv(d[1], t.constant(b * b));
  const std::vector<Dim> merged = {d[0], depth, t.mul(d[2], block), t.mul(d[3], block)};
  if (mode == "DCR") return finish_blocks(n, x, {d[0], block, block, depth, d[2], d[3]}, perm_of({0, 3, 4, 1, 5, 2}), merged);
  return finish_blocks(n, x, {d[0], depth, block, block, d[2], d[3]}, perm_of({0, 1, 4, 2, 5, 3}), merged);
}

Result<void> import_space_to_depth(NodeImport& n) {
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const int64_t b, read_blocksize(n, x));
  const std::vector<Dim> d = n.type(x).dims;
  LATHE_CHECK_OK(expect_divides(n, d[2], b, "rows"));
  LATHE_CHECK_OK(expect_divides(n, d[3], b, "columns"));
  DimTable& t = n.dims();
  const Dim block = t.constant(b), h = t.floordiv(d[2], block), w = t.floordiv(d[3], block);
  return finish_blocks(n, x, {d[0], d[1], h, block, w, block}, perm_of({0, 3, 5, 1, 2, 4}),
                       {d[0], t.mul(d[1], t.constant(b * b)), h, w});
}

// The middle of each axis, or the input in the middle of zeros.
Result<void> import_center_crop_pad(NodeImport& n) {
  LATHE_TRY(const auto given_axes, n.integers("axes"));
  LATHE_TRY(const auto target, n.known_integers(1, "the target dims"));
  LATHE_TRY(const ValueId x, n.value(0));
  const size_t rank = n.rank(x);
  std::vector<int64_t> all(rank);
  for (size_t i = 0; i < rank; ++i) all[i] = static_cast<int64_t>(i);
  LATHE_TRY(const auto axes, n.normalized_axes(given_axes ? *given_axes : all, rank));
  if (target.size() != axes.size())
    return fail(Code::kInvalidArgument, "the target has " + std::to_string(target.size()) + " dims for " +
                                            std::to_string(axes.size()) + " axes");
  PadAttrs attrs;
  attrs.before.count = attrs.after.count = static_cast<int32_t>(rank);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto from = n.dim(x, static_cast<size_t>(axes[i]));
    if (!from) return fail(Code::kUnsupported, "the input's dims must be known; --shape can fix them");
    if (target[i] < 1 || target[i] > INT32_MAX) return fail(Code::kInvalidArgument, "a target dim is " + std::to_string(target[i]));
    // What is odd is at the end, whether it is added or cut off.
    const int64_t more = target[i] - *from, before = more / 2;
    attrs.before.values[axes[i]] = static_cast<int32_t>(before);
    attrs.after.values[axes[i]] = static_cast<int32_t>(more - before);
  }
  return n.finish(Op::kPad, attrs, {x});
}

Result<void> import_size(NodeImport& n) {
  LATHE_TRY(const auto dims, operand_dims(n));
  Dim count = n.dims().constant(1);
  for (Dim d : dims) count = n.dims().mul(count, d);
  const auto known = n.dims().value(count);
  if (!known) {
    LATHE_TRY(const ValueId x, n.value(0));
    LATHE_TRY(const ValueId shape, n.emit("", Op::kShape, NoAttrs{}, {x}));
    return n.finish(Op::kReduceProd, ReduceAttrs{{1, {0}}, 0}, {shape}, 0, "product");
  }
  return n.bind_constant({std::string(n.proto().outputs[0]), DType::kS64, {}, Constant::of(std::vector<int64_t>{*known})});
}

namespace {

// Homogeneous coordinates of every point of a grid, the last axis' first: [points, axes + 1] in [-1, 1].
Result<ConstTensor> grid_points(NodeImport& n, const std::vector<int64_t>& spatial, bool align_corners) {
  const auto columns = static_cast<int64_t>(spatial.size()) + 1;
  std::vector<int64_t> dims = spatial;
  dims.push_back(columns);
  LATHE_TRY(const size_t bytes, checked_bytes(dims, sizeof(float)));
  if (bytes > size_t{64} << 20) return fail(Code::kUnsupported, "a grid of dims " + dims_text(spatial) + " is too large");
  std::vector<float> points(bytes / sizeof(float));
  const int64_t count = static_cast<int64_t>(points.size()) / columns;
  for (int64_t p = 0; p < count; ++p) {
    int64_t rest = p;
    for (size_t axis = spatial.size(); axis-- > 0; rest /= spatial[axis]) {
      const auto at = static_cast<double>(rest % spatial[axis]), size = static_cast<double>(spatial[axis]);
      const double place = align_corners ? (size > 1 ? 2 * at / (size - 1) - 1 : -1) : (2 * at + 1) / size - 1;
      points[static_cast<size_t>(p * columns) + spatial.size() - 1 - axis] = static_cast<float>(place);
    }
    points[static_cast<size_t>(p * columns + columns - 1)] = 1;
  }
  return ConstTensor{n.builder().value_name(n.name() + ":points"), DType::kF32, {1, count, columns}, Constant::of(points)};
}

}  // namespace

// Every point of the grid through the sample's matrix.
Result<void> import_affine_grid(NodeImport& n) {
  LATHE_TRY(const bool align_corners, n.flag("align_corners", false));
  LATHE_TRY(const auto size, n.known_integers(1, "the size"));
  LATHE_TRY(const ValueId theta, n.value(0));
  if (size.size() != 4 && size.size() != 5)
    return fail(Code::kInvalidArgument, "the size has " + std::to_string(size.size()) + " entries, not 4 or 5");
  if (n.rank(theta) != 3) return fail(Code::kInvalidArgument, "theta has rank " + std::to_string(n.rank(theta)) + ", not 3");
  const std::vector<int64_t> spatial(size.begin() + 2, size.end());
  LATHE_TRY(const ConstTensor grid, grid_points(n, spatial, align_corners));
  LATHE_TRY(const ValueId points, n.builder().constant(grid));
  LATHE_TRY(const ValueId columns, n.emit("columns", Op::kTranspose, perm_of({0, 2, 1}), {theta}));
  LATHE_TRY(const ValueId moved, n.emit("", Op::kMatMul, MatMulAttrs{}, {points, columns}));
  std::vector<Dim> dims = {n.type(theta).dims[0]};
  for (int64_t d : spatial) dims.push_back(n.dims().constant(d));
  dims.push_back(n.dims().constant(static_cast<int64_t>(spatial.size())));
  return finish_reshaped(n, moved, dims, "grid");
}

namespace {

Result<Ints> short_list(const std::vector<int64_t>& list, const char* what, size_t count) {
  Ints out;
  if (list.size() != count || count > kMaxRank)
    return fail(Code::kInvalidArgument,
                std::string(what) + " has " + std::to_string(list.size()) + " entries, not " + std::to_string(count));
  for (int64_t v : list) {
    if (v < INT32_MIN || v > INT32_MAX) return fail(Code::kInvalidArgument, std::string(what) + " has the entry " + std::to_string(v));
    out.values[out.count++] = static_cast<int32_t>(v);
  }
  return out;
}

}  // namespace

Result<void> import_col2im(NodeImport& n) {
  LATHE_TRY(const auto dilations, n.integers("dilations"));
  LATHE_TRY(const auto pads, n.integers("pads"));
  LATHE_TRY(const auto strides, n.integers("strides"));
  LATHE_TRY(const auto image, n.known_integers(1, "the image's dims"));
  LATHE_TRY(const auto block, n.known_integers(2, "the block's dims"));
  LATHE_TRY(const ValueId x, n.value(0));
  const size_t rank = image.size();
  const std::vector<int64_t> ones(rank, 1), zeros(2 * rank, 0), both = pads ? *pads : zeros;
  if (both.size() != 2 * rank) return fail(Code::kInvalidArgument, "pads has " + std::to_string(both.size()) + " entries");
  Col2ImAttrs a;
  LATHE_TRY(a.image, short_list(image, "the image", rank));
  LATHE_TRY(a.block, short_list(block, "the block", rank));
  LATHE_TRY(a.stride, short_list(strides ? *strides : ones, "strides", rank));
  LATHE_TRY(a.dilation, short_list(dilations ? *dilations : ones, "dilations", rank));
  const auto half = both.begin() + static_cast<std::ptrdiff_t>(rank);
  LATHE_TRY(a.before, short_list({both.begin(), half}, "pads", rank));
  LATHE_TRY(a.after, short_list({half, both.end()}, "pads", rank));
  return n.finish(Op::kCol2Im, a, {x});
}

Result<void> import_roi_align(NodeImport& n) {
  RoiAlignAttrs a;
  LATHE_TRY(const int64_t height, n.integer("output_height", 1));
  LATHE_TRY(const int64_t width, n.integer("output_width", 1));
  LATHE_TRY(const int64_t sampling, n.integer("sampling_ratio", 0));
  LATHE_TRY(const std::string_view mode, n.text("mode", "avg"));
  LATHE_TRY(a.spatial_scale, n.real("spatial_scale", 1.0f));
  std::string_view coordinates = "output_half_pixel";
  if (n.opset() >= 16) {
    LATHE_TRY(coordinates, n.text("coordinate_transformation_mode", "half_pixel"));
  }
  if (coordinates != "half_pixel" && coordinates != "output_half_pixel")
    return fail(Code::kInvalidArgument, "attribute 'coordinate_transformation_mode' is '" + std::string(coordinates) + "'");
  if (mode != "avg" && mode != "max") return fail(Code::kInvalidArgument, "attribute 'mode' is '" + std::string(mode) + "'");
  for (int64_t v : {height, width, sampling})
    if (v < 0 || v > 1 << 15) return fail(Code::kInvalidArgument, "an output of " + std::to_string(height) + " x " +
                                                                      std::to_string(width) + " cells is out of range");
  a.height = static_cast<int32_t>(height);
  a.width = static_cast<int32_t>(width);
  a.sampling = static_cast<int32_t>(sampling);
  a.half_pixel = coordinates == "half_pixel" ? 1 : 0;
  a.use_max = mode == "max" ? 1 : 0;
  std::vector<ValueId> operands;
  for (size_t i = 0; i < 3; ++i) {
    LATHE_TRY(operands.emplace_back(), n.value(i));
  }
  return n.finish(Op::kRoiAlign, a, operands);
}

}  // namespace lathe::onnx
