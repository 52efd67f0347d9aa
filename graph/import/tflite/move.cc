// Operators that move elements and change shapes.
#include <algorithm>

#include "graph/import/tflite/importer.h"

namespace lathe::tflite {
namespace {

Ints to_ints(const std::vector<int32_t>& list) {
  Ints out;
  for (const int32_t v : list) out.values[out.count++] = v;
  return out;
}

}  // namespace

Result<void> import_reshape(NodeImport& n) {
  LATHE_TRY(const ValueId x, n.value(0));
  if (n.has_input(1)) {
    LATHE_TRY(const auto target, n.known_dims(1, "the target shape"));
    return n.finish_reshaped(x, target);
  }
  const auto* o = n.options().options_as_Reshape();
  std::vector<Dim> target;
  if (o == nullptr || o->dims() == nullptr || o->dims()->size() > kMaxRank)
    return fail(Code::kInvalidArgument, "no target shape");
  for (const int32_t d : *o->dims()) target.push_back(n.dims().constant(d));
  return n.finish_reshaped(x, target);
}

Result<void> import_squeeze(NodeImport& n) {
  const auto* o = n.options().options_as_Squeeze();
  LATHE_TRY(const ValueId x, n.value(0));
  std::vector<int64_t> list;
  if (o != nullptr && o->dims() != nullptr) list.assign(o->dims()->begin(), o->dims()->end());
  LATHE_TRY(const Ints axes, n.normalized_axes(list, n.rank(x)));
  std::vector<Dim> target;
  for (size_t i = 0; i < n.rank(x); ++i) {
    const Dim d = n.type(x).dims[i];
    const bool named = std::find(axes.values, axes.values + axes.count, static_cast<int32_t>(i)) != axes.values + axes.count;
    if (named && !n.dims().is(d, 1)) return fail(Code::kInvalidArgument, "dim " + std::to_string(i) + " is not 1");
    if (named || (axes.count == 0 && n.dims().is(d, 1))) continue;
    target.push_back(d);
  }
  return n.finish_reshaped(x, target);
}

Result<void> import_expand_dims(NodeImport& n) {
  LATHE_TRY(const auto axis, n.known_integers(1, "the axis"));
  LATHE_TRY(const ValueId x, n.value(0));
  if (axis.size() != 1) return fail(Code::kInvalidArgument, std::to_string(axis.size()) + " axes, must be 1");
  LATHE_TRY(const int32_t at, n.normalized_axis(axis[0], n.rank(x) + 1));
  std::vector<Dim> target = n.type(x).dims;
  target.insert(target.begin() + at, n.dims().constant(1));
  return n.finish_reshaped(x, target);
}

Result<void> import_transpose(NodeImport& n) {
  LATHE_TRY(const auto list, n.known_integers(1, "the permutation"));
  LATHE_TRY(const ValueId x, n.value(0));
  if (list.size() != n.rank(x))
    return fail(Code::kInvalidArgument,
                "permutation has " + std::to_string(list.size()) + " axes, input has rank " + std::to_string(n.rank(x)));
  PermAttrs a;
  for (const int64_t axis : list) {
    LATHE_TRY(a.perm.values[a.perm.count++], n.normalized_axis(axis, n.rank(x)));
  }
  return n.finish(Op::kTranspose, a, {x});
}

// Quantized parts on the result's grid, so that the whole has it; the op regrids them.
Result<void> import_concat(NodeImport& n) {
  const auto* o = n.options().options_as_Concat();
  LATHE_TRY(const ActivationBounds bounds, activation_bounds(o == nullptr ? fbs::Activation_NONE : o->activation()));
  std::vector<ValueId> parts;
  for (size_t i = 0; i < n.input_count(); ++i) {
    LATHE_TRY(parts.emplace_back(), n.value(i));
  }
  LATHE_TRY(const int32_t axis, n.normalized_axis(o == nullptr ? 0 : o->axis(), n.rank(parts[0])));
  LATHE_TRY(const auto grid, quant_of(n.output()));
  LATHE_TRY(parts, n.few_parts(axis, std::move(parts), grid));
  if (bounds.lo == -kInfinity && bounds.hi == kInfinity) return n.finish(Op::kConcat, AxisAttrs{axis}, std::move(parts));
  LATHE_TRY(const ValueId whole, n.emit("whole", Op::kConcat, AxisAttrs{axis}, std::move(parts), grid));
  return n.finish(Op::kClamp, ClampAttrs{bounds.lo, bounds.hi}, {whole});
}

Result<void> import_pack(NodeImport& n) {
  const auto* o = n.options().options_as_Pack();
  std::vector<ValueId> parts;
  int32_t axis = 0;
  for (size_t i = 0; i < n.input_count(); ++i) {
    LATHE_TRY(const ValueId x, n.value(i));
    LATHE_TRY(axis, n.normalized_axis(o == nullptr ? 0 : o->axis(), n.rank(x) + 1));
    std::vector<Dim> dims = n.type(x).dims;
    dims.insert(dims.begin() + axis, n.dims().constant(1));
    LATHE_TRY(parts.emplace_back(), n.reshaped("part" + std::to_string(i), x, dims));
  }
  LATHE_TRY(const auto grid, quant_of(n.output()));
  LATHE_TRY(parts, n.few_parts(axis, std::move(parts), grid));
  return n.finish(Op::kConcat, AxisAttrs{axis}, std::move(parts));
}

namespace {

SliceAttrs range_attrs(int32_t axis, int64_t begin, int64_t end) {
  return {to_ints({axis}), to_ints({static_cast<int32_t>(begin)}), to_ints({static_cast<int32_t>(end)}), to_ints({1})};
}

}  // namespace

Result<void> import_unpack(NodeImport& n) {
  const auto* o = n.options().options_as_Unpack();
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const int32_t axis, n.normalized_axis(o == nullptr ? 0 : o->axis(), n.rank(x)));
  const auto extent = n.dim(x, static_cast<size_t>(axis));
  if (extent != static_cast<int64_t>(n.op().outputs.size()))
    return fail(Code::kInvalidArgument, std::to_string(n.op().outputs.size()) + " outputs, axis " + std::to_string(axis) +
                                            " has " + n.dims().text(n.type(x).dims[static_cast<size_t>(axis)]));
  std::vector<Dim> dims = n.type(x).dims;
  dims.erase(dims.begin() + axis);
  for (size_t i = 0; i < n.op().outputs.size(); ++i) {
    ValueId part = x;
    if (extent != 1) {
      const auto at = static_cast<int64_t>(i);
      LATHE_TRY(part, n.emit("part" + std::to_string(i), Op::kSlice, range_attrs(axis, at, at + 1), {x}));
    }
    LATHE_CHECK_OK(n.finish_reshaped(part, dims, i));
  }
  return {};
}

// SPLIT has the axis first and equal parts; SPLIT_V the parts' sizes second, one of them may be -1, and the axis last.
Result<void> import_split(NodeImport& n) {
  const bool sized = n.input_count() == 3;
  const auto parts = static_cast<int64_t>(n.op().outputs.size());
  LATHE_TRY(const auto axes, n.known_integers(sized ? 2 : 0, "the axis"));
  LATHE_TRY(const ValueId x, n.value(sized ? 0 : 1));
  if (axes.size() != 1) return fail(Code::kInvalidArgument, std::to_string(axes.size()) + " axes, must be 1");
  LATHE_TRY(const int32_t axis, n.normalized_axis(axes[0], n.rank(x)));
  const auto extent = n.dim(x, static_cast<size_t>(axis));
  if (!extent) return fail(Code::kUnsupported, "the split dim is not known; --shape can fix it");
  std::vector<int64_t> sizes(static_cast<size_t>(parts), *extent / parts);
  if (sized) {
    LATHE_TRY(sizes, n.known_integers(1, "the sizes"));
    int64_t rest = *extent;
    for (const int64_t s : sizes) rest -= std::clamp<int64_t>(s, 0, INT32_MAX);
    for (int64_t& s : sizes)
      if (s == -1) s = std::exchange(rest, 0);
  }
  int64_t sum = 0;
  for (const int64_t s : sizes) sum += std::clamp<int64_t>(s, 0, INT32_MAX);
  if (sum != *extent || static_cast<int64_t>(sizes.size()) != parts)
    return fail(Code::kInvalidArgument,
                "the parts have " + std::to_string(sum) + " of " + std::to_string(*extent) + " elements");
  int64_t at = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const std::string tag = "part" + std::to_string(i);
    LATHE_TRY(const ValueId part, n.emit(tag, Op::kSlice, range_attrs(axis, at, at + sizes[i]), {x}));
    LATHE_CHECK_OK(n.finish_value(part, i));
    at += sizes[i];
  }
  return {};
}

Result<void> import_slice(NodeImport& n) {
  LATHE_TRY(const auto begins, n.known_integers(1, "begin"));
  LATHE_TRY(const auto sizes, n.known_integers(2, "size"));
  LATHE_TRY(const ValueId x, n.value(0));
  if (begins.size() != n.rank(x) || sizes.size() != n.rank(x))
    return fail(Code::kInvalidArgument, std::to_string(begins.size()) + " begins and " + std::to_string(sizes.size()) +
                                            " sizes, input has rank " + std::to_string(n.rank(x)));
  SliceAttrs a;
  for (size_t i = 0; i < begins.size(); ++i) {
    const auto extent = n.dim(x, i);
    const int64_t end = sizes[i] == -1 ? INT32_MAX : begins[i] + sizes[i];
    if (begins[i] < 0 || begins[i] > INT32_MAX || sizes[i] < -1 || sizes[i] > INT32_MAX ||
        (extent && sizes[i] != -1 && end > *extent))
      return fail(Code::kInvalidArgument, "begin " + std::to_string(begins[i]) + " and size " + std::to_string(sizes[i]) +
                                              " in a dim of " + n.dims().text(n.type(x).dims[i]));
    a.axes.values[a.axes.count++] = static_cast<int32_t>(i);
    a.begins.values[a.begins.count++] = static_cast<int32_t>(begins[i]);
    a.ends.values[a.ends.count++] = static_cast<int32_t>(std::min<int64_t>(end, INT32_MAX));
    a.steps.values[a.steps.count++] = 1;
  }
  return n.finish(Op::kSlice, a, {x});
}

namespace {

constexpr int32_t kNewAxis = -1;
struct StridedSlice {
  SliceAttrs slice;
  std::vector<int32_t> axes;  // of the result: which axis of the input, or kNewAxis of size 1
  bool reshapes = false;      // axes come or go
};

// Reads the masks, one bit per entry of begin: an ellipsis stands for all axes that no other entry names.
class MaskReader {
 public:
  MaskReader(NodeImport& n, const fbs::StridedSliceOptions* o, ValueId x) : n_(n), o_(o), x_(x) {}

  Result<StridedSlice> read(const std::vector<int64_t>& begin, const std::vector<int64_t>& end,
                            const std::vector<int64_t>& step);

 private:
  bool bit(int32_t mask, size_t i) const { return i < 31 && (mask >> i & 1) != 0; }
  Result<void> add_axis(size_t entry, int64_t begin, int64_t end, int64_t step);
  void keep_axis() { out_.axes.push_back(static_cast<int32_t>(axis_++)); }

  NodeImport& n_;
  const fbs::StridedSliceOptions* o_;
  ValueId x_;
  size_t axis_ = 0;
  StridedSlice out_;
};

int32_t narrow(int64_t v) { return static_cast<int32_t>(std::clamp<int64_t>(v, INT32_MIN, INT32_MAX)); }

Result<void> MaskReader::add_axis(size_t entry, int64_t begin, int64_t end, int64_t step) {
  if (axis_ >= n_.rank(x_)) return fail(Code::kInvalidArgument, "more entries than its input has axes");
  if (step == 0) return fail(Code::kInvalidArgument, "step is 0");
  SliceAttrs& a = out_.slice;
  const bool shrinks = bit(o_->shrink_axis_mask(), entry);
  if (bit(o_->begin_mask(), entry)) begin = step > 0 ? 0 : INT32_MAX;
  if (o_->offset()) end += begin;
  if (shrinks) {
    step = 1;
    end = begin == -1 ? INT32_MAX : begin + 1;
    const auto extent = n_.dim(x_, axis_);
    if (extent && (begin < -*extent || begin >= *extent))
      return fail(Code::kInvalidArgument, "index " + std::to_string(begin) + " is outside a dim of " + std::to_string(*extent));
    out_.reshapes = true;
  } else if (bit(o_->end_mask(), entry)) {
    end = step > 0 ? INT32_MAX : INT32_MIN;
  }
  a.axes.values[a.axes.count++] = static_cast<int32_t>(axis_);
  a.begins.values[a.begins.count++] = narrow(begin);
  a.ends.values[a.ends.count++] = narrow(end);
  a.steps.values[a.steps.count++] = narrow(step);
  if (!shrinks) out_.axes.push_back(static_cast<int32_t>(axis_));
  ++axis_;
  return {};
}

Result<StridedSlice> MaskReader::read(const std::vector<int64_t>& begin, const std::vector<int64_t>& end,
                                      const std::vector<int64_t>& step) {
  size_t added = 0, ellipses = 0;
  for (size_t i = 0; i < begin.size(); ++i) {
    const bool ellipsis = bit(o_->ellipsis_mask(), i);
    ellipses += ellipsis ? 1 : 0;
    added += !ellipsis && bit(o_->new_axis_mask(), i) ? 1 : 0;
  }
  const size_t named = begin.size() - added - ellipses;
  if (ellipses > 1 || named > n_.rank(x_) || n_.rank(x_) + added > kMaxRank)
    return fail(Code::kInvalidArgument,
                std::to_string(begin.size()) + " entries do not fit an input of rank " + std::to_string(n_.rank(x_)));
  for (size_t i = 0; i < begin.size(); ++i) {
    if (bit(o_->ellipsis_mask(), i)) {
      for (size_t skipped = n_.rank(x_) - named; skipped > 0; --skipped) keep_axis();
    } else if (bit(o_->new_axis_mask(), i)) {
      out_.axes.push_back(kNewAxis);
      out_.reshapes = true;
    } else {
      LATHE_CHECK_OK(add_axis(i, begin[i], end[i], step[i]));
    }
  }
  while (axis_ < n_.rank(x_)) keep_axis();
  return out_;
}

}  // namespace

Result<void> import_strided_slice(NodeImport& n) {
  const auto* o = n.options().options_as_StridedSlice();
  if (o == nullptr) return fail(Code::kCorrupt, "its options are missing");
  LATHE_TRY(const auto begin, n.known_integers(1, "begin"));
  LATHE_TRY(const auto end, n.known_integers(2, "end"));
  LATHE_TRY(const auto step, n.known_integers(3, "the steps"));
  LATHE_TRY(const ValueId x, n.value(0));
  if (begin.size() != end.size() || begin.size() != step.size() || begin.size() > kMaxRank)
    return fail(Code::kInvalidArgument, std::to_string(begin.size()) + " begins, " + std::to_string(end.size()) + " ends and " +
                                            std::to_string(step.size()) + " steps");
  LATHE_TRY(StridedSlice s, MaskReader(n, o, x).read(begin, end, step));
  if (!s.reshapes) return n.finish(Op::kSlice, s.slice, {x});
  LATHE_TRY(const ValueId part, n.emit("part", Op::kSlice, s.slice, {x}));
  std::vector<Dim> dims;
  for (const int32_t axis : s.axes)
    dims.push_back(axis == kNewAxis ? n.dims().constant(1) : n.type(part).dims[static_cast<size_t>(axis)]);
  return n.finish_reshaped(part, dims);
}

namespace {

// [rank, 2] numbers: before and after, per axis.
Result<PadAttrs> read_pads(NodeImport& n, size_t i, size_t rank) {
  LATHE_TRY(const auto pads, n.known_integers(i, "the pads"));
  if (pads.size() != 2 * rank)
    return fail(Code::kInvalidArgument, std::to_string(pads.size()) + " pads, input has rank " + std::to_string(rank));
  PadAttrs a;
  for (size_t axis = 0; axis < rank; ++axis) {
    for (const int64_t p : {pads[2 * axis], pads[2 * axis + 1]})
      if (p < 0 || p > INT32_MAX) return fail(Code::kInvalidArgument, "a pad is " + std::to_string(p));
    a.before.values[a.before.count++] = static_cast<int32_t>(pads[2 * axis]);
    a.after.values[a.after.count++] = static_cast<int32_t>(pads[2 * axis + 1]);
  }
  return a;
}

// The one element of operand i as a real value.
Result<float> known_real(NodeImport& n, size_t i) {
  LATHE_TRY(const ValueId v, n.value(i));
  const Value& value = n.builder().graph.value(v);
  if (value.kind != ValueKind::kConstant) return fail(Code::kUnsupported, "the pad value is not constant");
  const bool is_s8 = value.type.dtype == DType::kS8 && value.quant && value.quant->axis == -1;
  if (value.type.dtype == DType::kF32 && value.constant.bytes.size() == sizeof(float)) return value.constant.as<float>()[0];
  if (is_s8 && value.constant.bytes.size() == 1)
    return static_cast<float>(value.constant.as<int8_t>()[0] - value.quant->zero_points[0]) * value.quant->scales[0];
  return fail(Code::kUnsupported, "a pad value of this type is not supported");
}

}  // namespace

Result<void> import_pad(NodeImport& n) {
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(PadAttrs a, read_pads(n, 1, n.rank(x)));
  if (n.has_input(2)) {
    LATHE_TRY(a.value, known_real(n, 2));
  }
  return n.finish(Op::kPad, a, {x});
}

namespace {

struct Blocks {
  std::vector<int64_t> block;
  std::vector<int64_t> limits;  // pads or crops: before and after, per spatial axis
};

// Axes 1 and 2 of an image are cut into blocks.
Result<Blocks> read_blocks(NodeImport& n, ValueId x, const char* what) {
  Blocks b;
  LATHE_TRY(b.block, n.known_integers(1, "the block"));
  LATHE_TRY(b.limits, n.known_integers(2, what));
  const size_t spatial = b.block.size();
  if (spatial < 1 || spatial > 2 || n.rank(x) != spatial + 2 || b.limits.size() != 2 * spatial)
    return fail(Code::kUnsupported,
                "a block of rank " + std::to_string(spatial) + " on an input of rank " + std::to_string(n.rank(x)));
  for (const int64_t v : b.block)
    if (v < 1 || v > INT32_MAX) return fail(Code::kInvalidArgument, "a block of " + std::to_string(v));
  for (const int64_t v : b.limits)
    if (v < 0 || v > INT32_MAX) return fail(Code::kInvalidArgument, std::string(what) + " of " + std::to_string(v));
  return b;
}

Result<Dim> divided(NodeImport& n, Dim d, int64_t by) {
  if (const auto v = n.dims().value(d); v && *v % by != 0)
    return fail(Code::kInvalidArgument,
                "a dim of " + std::to_string(*v) + " does not divide into blocks of " + std::to_string(by));
  return n.dims().floordiv(d, n.dims().constant(by));
}

}  // namespace

// [b, h, w, c] padded, as [b, h/p, p, w/q, q, c], then the places in a block come first: [p q b, h/p, w/q, c].
Result<void> import_space_to_batch(NodeImport& n) {
  LATHE_TRY(ValueId x, n.value(0));
  LATHE_TRY(const Blocks b, read_blocks(n, x, "pads"));
  const size_t spatial = b.block.size();
  PadAttrs pads;
  pads.before.count = pads.after.count = static_cast<int32_t>(n.rank(x));
  for (size_t i = 0; i < spatial; ++i) {
    pads.before.values[1 + i] = static_cast<int32_t>(b.limits[2 * i]);
    pads.after.values[1 + i] = static_cast<int32_t>(b.limits[2 * i + 1]);
  }
  LATHE_TRY(x, n.emit("padded", Op::kPad, pads, {x}));
  std::vector<Dim> cut = {n.type(x).dims[0]}, out = {n.type(x).dims[0]};
  PermAttrs perm;
  for (size_t i = 0; i < spatial; ++i) {
    const Dim block = n.dims().constant(b.block[i]);
    LATHE_TRY(const Dim count, divided(n, n.type(x).dims[1 + i], b.block[i]));
    cut.insert(cut.end(), {count, block});
    out[0] = n.dims().mul(out[0], block);
    out.push_back(count);
    perm.perm.values[perm.perm.count++] = static_cast<int32_t>(2 + 2 * i);
  }
  cut.push_back(n.type(x).dims.back());
  out.push_back(n.type(x).dims.back());
  perm.perm.values[perm.perm.count++] = 0;
  for (size_t i = 0; i < spatial; ++i) perm.perm.values[perm.perm.count++] = static_cast<int32_t>(1 + 2 * i);
  perm.perm.values[perm.perm.count++] = static_cast<int32_t>(1 + 2 * spatial);
  LATHE_TRY(x, n.reshaped("cut", x, cut));
  LATHE_TRY(x, n.emit("blocks", Op::kTranspose, perm, {x}));
  return n.finish_reshaped(x, out);
}

// The way back: [p q b, h, w, c] as [p, q, b, h, w, c], to [b, h, p, w, q, c], to [b, h p, w q, c], cropped.
Result<void> import_batch_to_space(NodeImport& n) {
  LATHE_TRY(ValueId x, n.value(0));
  LATHE_TRY(const Blocks b, read_blocks(n, x, "crops"));
  const size_t spatial = b.block.size();
  int64_t places = 1;
  std::vector<Dim> cut, out;
  for (const int64_t v : b.block) {
    if (__builtin_mul_overflow(places, v, &places)) return fail(Code::kInvalidArgument, "the block is too large");
    cut.push_back(n.dims().constant(v));
  }
  LATHE_TRY(const Dim batch, divided(n, n.type(x).dims[0], places));
  cut.push_back(batch);
  out.push_back(batch);
  PermAttrs perm;
  perm.perm.values[perm.perm.count++] = static_cast<int32_t>(spatial);
  SliceAttrs crop;
  for (size_t i = 0; i < spatial; ++i) {
    cut.push_back(n.type(x).dims[1 + i]);
    out.push_back(n.dims().mul(n.type(x).dims[1 + i], n.dims().constant(b.block[i])));
    perm.perm.values[perm.perm.count++] = static_cast<int32_t>(spatial + 1 + i);
    perm.perm.values[perm.perm.count++] = static_cast<int32_t>(i);
    crop.axes.values[crop.axes.count++] = static_cast<int32_t>(1 + i);
    crop.begins.values[crop.begins.count++] = static_cast<int32_t>(b.limits[2 * i]);
    const auto behind = static_cast<int32_t>(b.limits[2 * i + 1]);
    crop.ends.values[crop.ends.count++] = behind == 0 ? INT32_MAX : -behind;
    crop.steps.values[crop.steps.count++] = 1;
  }
  cut.push_back(n.type(x).dims.back());
  out.push_back(n.type(x).dims.back());
  perm.perm.values[perm.perm.count++] = static_cast<int32_t>(2 * spatial + 1);
  LATHE_TRY(x, n.reshaped("cut", x, cut));
  LATHE_TRY(x, n.emit("rows", Op::kTranspose, perm, {x}));
  LATHE_TRY(x, n.reshaped("image", x, out));
  return n.finish(Op::kSlice, crop, {x});
}

namespace {

// x as `cut`, its axes in the order of `perm`, as `out`.
Result<void> move_blocks(NodeImport& n, ValueId x, const std::vector<Dim>& cut, const std::vector<int32_t>& perm,
                         const std::vector<Dim>& out) {
  LATHE_TRY(x, n.reshaped("cut", x, cut));
  LATHE_TRY(x, n.emit("moved", Op::kTranspose, PermAttrs{to_ints(perm)}, {x}));
  return n.finish_reshaped(x, out);
}

Result<int64_t> read_block(NodeImport& n, const fbs::BlockOptions* o, ValueId x) {
  if (o == nullptr || o->block() < 1) return fail(Code::kInvalidArgument, "no block size");
  if (n.rank(x) != 4)
    return fail(Code::kUnsupported, "an input of rank " + std::to_string(n.rank(x)) + ", only 4 is supported");
  return o->block();
}

}  // namespace

// [b, h, w, (p q c)] to [b, h, p, w, q, c] to [b, h p, w q, c].
Result<void> import_depth_to_space(NodeImport& n) {
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const int64_t size, read_block(n, n.options().options_as_DepthToSpace(), x));
  const std::vector<Dim> d = n.type(x).dims;
  const Dim block = n.dims().constant(size);
  LATHE_TRY(const Dim rest, divided(n, d[3], size));
  LATHE_TRY(const Dim channels, divided(n, rest, size));
  return move_blocks(n, x, {d[0], d[1], d[2], block, block, channels}, {0, 1, 3, 2, 4, 5},
                     {d[0], n.dims().mul(d[1], block), n.dims().mul(d[2], block), channels});
}

// [b, h, p, w, q, c] to [b, h, w, (p q c)].
Result<void> import_space_to_depth(NodeImport& n) {
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const int64_t size, read_block(n, n.options().options_as_SpaceToDepth(), x));
  const std::vector<Dim> d = n.type(x).dims;
  const Dim block = n.dims().constant(size);
  LATHE_TRY(const Dim rows, divided(n, d[1], size));
  LATHE_TRY(const Dim cols, divided(n, d[2], size));
  return move_blocks(n, x, {d[0], rows, block, cols, block, d[3]}, {0, 1, 3, 2, 4, 5},
                     {d[0], rows, cols, n.dims().mul(d[3], n.dims().mul(block, block))});
}

}  // namespace lathe::tflite
