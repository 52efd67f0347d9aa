// Attributes of operators that move data, take shapes from data, or look at windows. Rules as in runtime/attrs.h.
#pragma once
#include "runtime/attrs.h"

namespace lathe {

// `number` names the operand's elements as dims: value(number, i). Unique in a program.
struct ExtentsAttrs {
  static constexpr bool kEmpty = false;
  int32_t number = 0;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) { v("number", s.number); }
  constexpr bool operator==(const ExtentsAttrs&) const = default;
};

// The target of a reshape of x as dims: 0 copies x's dim (unless keep_zeros), -1 is what the others leave.
struct TargetDimsAttrs {
  static constexpr bool kEmpty = false;
  int32_t keep_zeros = 0;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) { v("keep_zeros", s.keep_zeros); }
  constexpr bool operator==(const TargetDimsAttrs&) const = default;
};

// Elements of the input itself around it: mirrored (without the outermost one), the outermost one repeated, or from the other end.
enum class BorderMode : int32_t { kReflect = 0, kEdge = 1, kWrap = 2 };

// `before` and `after` have one entry per axis, none below 0.
struct BorderAttrs {
  static constexpr bool kEmpty = false;
  Ints before;
  Ints after;
  int32_t mode = 0;  // a BorderMode
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) {
    v("before", s.before); v("after", s.after); v("mode", s.mode);
  }
  constexpr bool operator==(const BorderAttrs&) const = default;
};

// How often each axis is repeated, at least once.
struct TileAttrs {
  static constexpr bool kEmpty = false;
  Ints repeats;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) { v("repeats", s.repeats); }
  constexpr bool operator==(const TileAttrs&) const = default;
};

struct GatherNdAttrs {
  static constexpr bool kEmpty = false;
  int32_t batch_dims = 0;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) { v("batch_dims", s.batch_dims); }
  constexpr bool operator==(const GatherNdAttrs&) const = default;
};

// What an update does to the element that it meets.
enum class ScatterReduction : int32_t { kNone = 0, kAdd = 1, kMul = 2, kMin = 3, kMax = 4 };

// axis: of ScatterElements.
struct ScatterAttrs {
  static constexpr bool kEmpty = false;
  int32_t axis = 0;
  int32_t reduction = 0;  // a ScatterReduction
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) { v("axis", s.axis); v("reduction", s.reduction); }
  constexpr bool operator==(const ScatterAttrs&) const = default;
};

// Updates are written along `axis` from a place per batch entry on; circular: past the end they go on at the start.
struct TensorScatterAttrs {
  static constexpr bool kEmpty = false;
  int32_t axis = 0;
  int32_t circular = 0;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) { v("axis", s.axis); v("circular", s.circular); }
  constexpr bool operator==(const TensorScatterAttrs&) const = default;
};

// Different slices along `axis`; sorted: ascending, else in the order in which they come first.
struct UniqueAttrs {
  static constexpr bool kEmpty = false;
  int32_t axis = 0;
  int32_t sorted = 1;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) { v("axis", s.axis); v("sorted", s.sorted); }
  constexpr bool operator==(const UniqueAttrs&) const = default;
};

// A new axis of `depth` elements at `axis`.
struct OneHotAttrs {
  static constexpr bool kEmpty = false;
  int32_t axis = 0;
  int32_t depth = 1;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) { v("axis", s.axis); v("depth", s.depth); }
  constexpr bool operator==(const OneHotAttrs&) const = default;
};

struct ReverseSequenceAttrs {
  static constexpr bool kEmpty = false;
  int32_t batch_axis = 1;
  int32_t time_axis = 0;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) {
    v("batch_axis", s.batch_axis); v("time_axis", s.time_axis);
  }
  constexpr bool operator==(const ReverseSequenceAttrs&) const = default;
};

// Columns of blocks [n, c * block, positions] summed into images [n, c, image]; one entry per spatial axis.
struct Col2ImAttrs {
  static constexpr bool kEmpty = false;
  Ints image;
  Ints block;
  Ints stride;
  Ints dilation;
  Ints before;
  Ints after;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) {
    v("image", s.image); v("block", s.block); v("stride", s.stride); v("dilation", s.dilation); v("before", s.before);
    v("after", s.after);
  }
  constexpr bool operator==(const Col2ImAttrs&) const = default;
};

// Maximum over windows of an NCHW tensor, and where it stands: an index into the whole tensor. Otherwise as Pool2dAttrs.
// column_major: rows of an image are counted before columns.
struct ArgMaxPoolAttrs {
  static constexpr bool kEmpty = false;
  int32_t kernel[2] = {1, 1};
  int32_t stride[2] = {1, 1};
  int32_t dilation[2] = {1, 1};
  int32_t pad[4] = {0, 0, 0, 0};
  int32_t ceil_mode = 0;
  int32_t column_major = 0;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) {
    v("kernel", s.kernel); v("stride", s.stride); v("dilation", s.dilation); v("pad", s.pad); v("ceil_mode", s.ceil_mode);
    v("column_major", s.column_major);
  }
  constexpr bool operator==(const ArgMaxPoolAttrs&) const = default;
};

enum class ResizeMode : int32_t { kNearest = 0, kLinear = 1, kCubic = 2 };
enum class ResizeNearest : int32_t { kRoundPreferFloor = 0, kRoundPreferCeil = 1, kFloor = 2, kCeil = 3 };
// Where output element i lies in the input, as ONNX's Resize names it.
enum class ResizeCoordinates : int32_t {
  kHalfPixel = 0,
  kHalfPixelSymmetric = 1,
  kPytorchHalfPixel = 2,
  kAlignCorners = 3,
  kAsymmetric = 4,
  kTfHalfPixelForNearest = 5,
  kCropAndResize = 6,  // between start and end (fractions of the axis); outside of the input the result is `extrapolation`
};

// Resizes one axis, to `size` elements or (0) to floor(scale_up * n / scale_down) elements. `scale` is what coordinates use; 0: the
// quotient of the sizes.
struct ResizeAttrs {
  static constexpr bool kEmpty = false;
  int32_t axis = 0;
  int32_t size = 0;
  int32_t scale_up = 1;
  int32_t scale_down = 1;
  float scale = 0.0f;
  int32_t mode = 0;
  int32_t nearest = 0;
  int32_t coordinates = 0;
  float cubic_a = -0.75f;
  int32_t exclude_outside = 0;
  int32_t antialias = 0;
  float start = 0.0f;
  float end = 1.0f;
  float extrapolation = 0.0f;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) {
    v("axis", s.axis); v("size", s.size); v("scale_up", s.scale_up); v("scale_down", s.scale_down); v("scale", s.scale);
    v("mode", s.mode); v("nearest", s.nearest); v("coordinates", s.coordinates); v("cubic_a", s.cubic_a);
    v("exclude_outside", s.exclude_outside); v("antialias", s.antialias); v("start", s.start); v("end", s.end);
    v("extrapolation", s.extrapolation);
  }
  constexpr bool operator==(const ResizeAttrs&) const = default;
};

// Boxes of an NCHW tensor pooled to height x width, bilinear samples averaged or (use_max) the largest taken. sampling 0: as many
// per bin as its size in pixels, rounded up. half_pixel: pixel centres lie at a half.
struct RoiAlignAttrs {
  static constexpr bool kEmpty = false;
  int32_t height = 1;
  int32_t width = 1;
  int32_t sampling = 0;
  float spatial_scale = 1.0f;
  int32_t half_pixel = 1;
  int32_t use_max = 0;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) {
    v("height", s.height); v("width", s.width); v("sampling", s.sampling); v("spatial_scale", s.spatial_scale);
    v("half_pixel", s.half_pixel); v("use_max", s.use_max);
  }
  constexpr bool operator==(const RoiAlignAttrs&) const = default;
};

// Labels (0 to 15) of the axes of both operands and of the result; a label may stand twice in an operand (its diagonal). Labels
// that the result lacks are summed over.
struct EinsumAttrs {
  static constexpr bool kEmpty = false;
  Ints a;
  Ints b;
  Ints y;
  template <class Self, class V> static constexpr void visit(Self& s, V&& v) { v("a", s.a); v("b", s.b); v("y", s.y); }
  constexpr bool operator==(const EinsumAttrs&) const = default;
};

}  // namespace lathe
