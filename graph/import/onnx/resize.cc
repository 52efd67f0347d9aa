// Resize and Upsample: one node per axis that changes.
#include <algorithm>
#include <cmath>

#include "graph/import/onnx/reshape.h"

namespace lathe::onnx {
namespace {

// What the file asks for, per axis in `axes`.
struct Request {
  std::vector<int32_t> axes;
  std::vector<float> scales;    // empty: sizes
  std::vector<int64_t> sizes;   // -1: an expression, in size_dims
  std::vector<Dim> size_dims;
  std::vector<float> roi;       // starts, then ends; empty if they are not used
};

Result<std::vector<float>> known_reals(NodeImport& n, size_t i, const char* what) {
  LATHE_TRY(const auto t, n.constant(i));
  if (!t)
    return fail(Code::kUnsupported,
                std::string(what) + " '" + std::string(n.proto().inputs[i]) + "' are not constant; --const can fix them");
  if (t->dtype != DType::kF32) return fail(Code::kInvalidArgument, std::string(what) + " are " + dtype_name(t->dtype));
  const auto values = t->bytes.as<float>();
  return std::vector<float>(values.begin(), values.end());
}

// An operand that is there and not empty: exporters write empty tensors for missing ones.
bool has_elements(NodeImport& n, size_t i) {
  if (!n.has_input(i)) return false;
  const Binding b = n.binding(i);
  return !b.tensor || b.tensor->elems() != 0;
}

Result<ResizeMode> read_mode(NodeImport& n) {
  LATHE_TRY(const std::string_view mode, n.text("mode", "nearest"));
  if (mode == "nearest") return ResizeMode::kNearest;
  if (mode == "linear" || (n.opset() < 10 && mode == "bilinear")) return ResizeMode::kLinear;
  if (mode == "cubic" && n.opset() >= 11) return ResizeMode::kCubic;
  return fail(Code::kInvalidArgument, "attribute 'mode' is '" + std::string(mode) + "'");
}

template <class E> struct Name {
  std::string_view text;
  E value;
};

template <class E, size_t N>
Result<E> named(NodeImport& n, const char* attribute, std::string_view absent, const Name<E> (&names)[N]) {
  LATHE_TRY(const std::string_view given, n.text(attribute, absent));
  for (const Name<E>& name : names)
    if (name.text == given) return name.value;
  return fail(Code::kInvalidArgument, std::string("attribute '") + attribute + "' is '" + std::string(given) + "'");
}

Result<ResizeCoordinates> read_coordinates(NodeImport& n) {
  static constexpr Name<ResizeCoordinates> kNames[] = {
      {"half_pixel", ResizeCoordinates::kHalfPixel},
      {"half_pixel_symmetric", ResizeCoordinates::kHalfPixelSymmetric},
      {"pytorch_half_pixel", ResizeCoordinates::kPytorchHalfPixel},
      {"align_corners", ResizeCoordinates::kAlignCorners},
      {"asymmetric", ResizeCoordinates::kAsymmetric},
      {"tf_half_pixel_for_nn", ResizeCoordinates::kTfHalfPixelForNearest},
      {"tf_crop_and_resize", ResizeCoordinates::kCropAndResize},
  };
  return named(n, "coordinate_transformation_mode", "half_pixel", kNames);
}

Result<ResizeNearest> read_nearest(NodeImport& n) {
  static constexpr Name<ResizeNearest> kNames[] = {
      {"round_prefer_floor", ResizeNearest::kRoundPreferFloor},
      {"round_prefer_ceil", ResizeNearest::kRoundPreferCeil},
      {"floor", ResizeNearest::kFloor},
      {"ceil", ResizeNearest::kCeil},
  };
  return named(n, "nearest_mode", "round_prefer_floor", kNames);
}

// Attributes of the node but for the axis, its size and crop. Before opset 11 coordinates are x / scale, rounded down.
Result<ResizeAttrs> read_attributes(NodeImport& n) {
  ResizeAttrs a;
  LATHE_TRY(const ResizeMode mode, read_mode(n));
  a.mode = static_cast<int32_t>(mode);
  a.coordinates = static_cast<int32_t>(ResizeCoordinates::kAsymmetric);
  a.nearest = static_cast<int32_t>(ResizeNearest::kFloor);
  if (n.opset() < 11) return a;
  LATHE_TRY(const ResizeCoordinates coordinates, read_coordinates(n));
  LATHE_TRY(const ResizeNearest nearest, read_nearest(n));
  a.coordinates = static_cast<int32_t>(coordinates);
  a.nearest = static_cast<int32_t>(nearest);
  LATHE_TRY(a.cubic_a, n.real("cubic_coeff_a", -0.75f));
  LATHE_TRY(const bool exclude, n.flag("exclude_outside", false));
  LATHE_TRY(a.extrapolation, n.real("extrapolation_value", 0.0f));
  a.exclude_outside = exclude ? 1 : 0;
  if (n.opset() < 18) return a;
  LATHE_TRY(const bool antialias, n.flag("antialias", false));
  a.antialias = antialias ? 1 : 0;
  return a;
}

Result<void> expect_count(const char* what, size_t got, size_t wanted) {
  if (got == wanted) return {};
  return fail(Code::kInvalidArgument,
              std::string(what) + " have " + std::to_string(got) + " entries, not " + std::to_string(wanted));
}

// Sizes that keep the proportions of the input: all axes get one scale, the smallest or the largest of those asked for.
Result<void> keep_proportions(NodeImport& n, ValueId x, bool larger, Request& r) {
  double scale = 0;
  std::vector<double> from;
  for (size_t i = 0; i < r.axes.size(); ++i) {
    const auto d = n.dim(x, static_cast<size_t>(r.axes[i]));
    if (!d) return fail(Code::kUnsupported, "keeping the proportions needs the input's dims; --shape can fix them");
    from.push_back(static_cast<double>(*d));
    const double asked = static_cast<double>(r.sizes[i]) / from.back();
    scale = i == 0 ? asked : larger ? std::max(scale, asked) : std::min(scale, asked);
  }
  for (size_t i = 0; i < r.axes.size(); ++i) r.sizes[i] = static_cast<int64_t>(std::floor(scale * from[i] + 0.5));
  r.scales.assign(r.axes.size(), static_cast<float>(scale));
  return {};
}

Result<void> read_sizes(NodeImport& n, ValueId x, Request& r) {
  LATHE_TRY(r.size_dims, n.known_dims(3, "the sizes"));
  bool known = true;
  for (Dim d : r.size_dims) {
    r.sizes.push_back(n.dims().value(d).value_or(-1));
    known = known && r.sizes.back() != -1;
  }
  LATHE_CHECK_OK(expect_count("the sizes", r.sizes.size(), r.axes.size()));
  if (n.opset() < 18) return {};
  LATHE_TRY(const std::string_view policy, n.text("keep_aspect_ratio_policy", "stretch"));
  if (policy == "stretch") return {};
  if (policy != "not_larger" && policy != "not_smaller")
    return fail(Code::kInvalidArgument, "attribute 'keep_aspect_ratio_policy' is '" + std::string(policy) + "'");
  if (!known) return fail(Code::kUnsupported, "keeping the proportions needs known sizes; --shape can fix them");
  return keep_proportions(n, x, policy == "not_smaller", r);
}

Result<Request> read_request(NodeImport& n, ValueId x, bool crops) {
  Request r;
  const size_t rank = n.rank(x);
  std::vector<int64_t> axes(rank);
  for (size_t i = 0; i < rank; ++i) axes[i] = static_cast<int64_t>(i);
  if (n.opset() >= 18) {
    LATHE_TRY(const auto given, n.integers("axes"));
    if (given) axes = *given;
  }
  LATHE_TRY(r.axes, n.normalized_axes(axes, rank));
  const size_t scales = n.opset() < 11 ? 1 : 2;
  if (n.opset() < 9) {
    const Attribute* a = n.take("scales");
    if (a == nullptr || a->type != AttributeType::kFloats) return fail(Code::kInvalidArgument, "the scales are missing");
    r.scales.assign(a->floats.begin(), a->floats.end());
  } else if (has_elements(n, scales)) {
    LATHE_TRY(r.scales, known_reals(n, scales, "the scales"));
  }
  if (!r.scales.empty()) {
    LATHE_CHECK_OK(expect_count("the scales", r.scales.size(), r.axes.size()));
    for (float s : r.scales)
      if (!(s > 0) || !std::isfinite(s)) return fail(Code::kInvalidArgument, "a scale is " + std::to_string(s));
    n.ignore("keep_aspect_ratio_policy");  // of sizes
  } else {
    if (n.opset() < 11 || !has_elements(n, 3)) return fail(Code::kInvalidArgument, "it has neither scales nor sizes");
    LATHE_CHECK_OK(read_sizes(n, x, r));
  }
  if (!crops) return r;
  LATHE_TRY(r.roi, known_reals(n, 1, "the region"));
  LATHE_CHECK_OK(expect_count("the region", r.roi.size(), 2 * r.axes.size()));
  return r;
}

// A size that is an expression: a multiple or a part of the axis' own dim.
Result<void> fill_ratio(NodeImport& n, ValueId x, Dim size, ResizeAttrs& a) {
  const Dim own = n.type(x).dims[static_cast<size_t>(a.axis)];
  for (int32_t k = 1; k <= 64; ++k) {
    const Dim factor = n.dims().constant(k);
    if (n.dims().mul(own, factor) == size) {
      a.scale_up = k;
      return {};
    }
    if (n.dims().floordiv(own, factor) == size) {
      a.scale_down = k;
      return {};
    }
  }
  return fail(Code::kUnsupported, "a size of " + n.dims().text(size) + " for a dim of " + n.dims().text(own) +
                                      " is not supported; --shape can fix it");
}

// The size of one axis: a number, or a fraction of a dim that is not known.
Result<void> fill_size(NodeImport& n, ValueId x, const Request& r, size_t i, ResizeAttrs& a) {
  if (!r.scales.empty()) a.scale = r.scales[i];
  const auto known = n.dim(x, static_cast<size_t>(a.axis));
  int64_t size = 0;
  if (!r.sizes.empty()) {
    if (r.sizes[i] == -1 && !n.dims().value(r.size_dims[i])) return fill_ratio(n, x, r.size_dims[i], a);
    size = r.sizes[i];
  } else if (known) {
    size = static_cast<int64_t>(std::floor(static_cast<double>(a.scale) * static_cast<double>(*known)));
  } else {
    for (a.scale_down = 1; a.scale_down <= 16; ++a.scale_down) {
      const double up = static_cast<double>(a.scale) * a.scale_down;
      if (up != std::floor(up) || up > INT32_MAX) continue;
      a.scale_up = static_cast<int32_t>(up);
      return {};
    }
    return fail(Code::kUnsupported, "a scale of " + std::to_string(a.scale) + " needs the dim; --shape can fix it");
  }
  if (size < 1 || size > INT32_MAX)
    return fail(Code::kUnsupported, "axis " + std::to_string(a.axis) + " is resized to " + std::to_string(size) + " elements");
  a.size = static_cast<int32_t>(size);
  return {};
}

Result<void> import_resized(NodeImport& n) {
  LATHE_TRY(ResizeAttrs attrs, read_attributes(n));
  const bool crops = attrs.coordinates == static_cast<int32_t>(ResizeCoordinates::kCropAndResize);
  LATHE_TRY(ValueId x, n.value(0));
  LATHE_TRY(const Request r, read_request(n, x, crops));
  const Op op = attrs.mode == static_cast<int32_t>(ResizeMode::kNearest) ? Op::kResizeNearest : Op::kResize;
  if (op == Op::kResize && n.type(x).dtype != DType::kF32)
    return fail(Code::kUnsupported, std::string("interpolating ") + dtype_name(n.type(x).dtype) + " is not supported, only floats");
  for (size_t i = 0; i < r.axes.size(); ++i) {
    ResizeAttrs a = attrs;
    a.axis = r.axes[i];
    LATHE_CHECK_OK(fill_size(n, x, r, i, a));
    const bool whole = r.roi.empty() || (r.roi[i] == 0 && r.roi[r.axes.size() + i] == 1);
    const bool same = a.size != 0 ? n.dim(x, static_cast<size_t>(a.axis)) == int64_t{a.size} : a.scale_up == a.scale_down;
    if (same && whole && (a.scale == 0 || a.scale == 1)) continue;
    if (!r.roi.empty()) {
      a.start = r.roi[i];
      a.end = r.roi[r.axes.size() + i];
    }
    LATHE_TRY(x, n.emit("axis" + std::to_string(a.axis), op, a, {x}));
  }
  n.bind({x, nullptr});
  return {};
}

}  // namespace

Result<void> import_resize(NodeImport& n) { return import_resized(n); }

Result<void> import_upsample(NodeImport& n) {
  if (n.opset() >= 10) return fail(Code::kInvalidArgument, "Upsample is Resize from opset 10 on");
  return import_resized(n);
}

}  // namespace lathe::onnx
