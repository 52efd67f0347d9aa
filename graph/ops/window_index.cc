// Ops that look at windows of tensors with channels second: ArgMaxPool2d, Col2Im, RoiAlign.
#include "graph/ops/table.h"
#include "graph/ops/typing.h"

namespace lathe::ops {
namespace {

// x [n,c,h,w]; the largest elements, and their places in x.
Types infer_arg_max_pool(const InferInput& in) {
  const auto& a = std::get<ArgMaxPoolAttrs>(in.attrs);
  const OperandView& x = in.in[0];
  LATHE_CHECK_OK(want_real(x, "input"));
  LATHE_CHECK_OK(want_rank(x, 4, "input"));
  std::vector<Dim> out = x.type->dims;
  for (size_t i = 0; i < 2; ++i) {
    LATHE_TRY(out[2 + i], pooled_extent(in.dims, a, i, x.type->dims[2 + i]));
  }
  std::vector<Inferred> results;
  results.push_back({.type = {x.type->dtype, out}});
  results.push_back({.type = {DType::kS64, out}});
  return results;
}

// x [n, c * block, positions of a block in the image]; the result is [n, c, image].
Types infer_col2im(const InferInput& in) {
  const auto& a = std::get<Col2ImAttrs>(in.attrs);
  const OperandView& x = in.in[0];
  LATHE_CHECK_OK(want_real(x, "input"));
  LATHE_CHECK_OK(want_rank(x, 3, "input"));
  const int32_t rank = a.image.count;
  for (const Ints* list : {&a.block, &a.stride, &a.dilation, &a.before, &a.after})
    if (list->count != rank || rank < 1 || rank > static_cast<int32_t>(kMaxRank) - 2)
      return fail(Code::kInvalidArgument, "image has " + std::to_string(rank) + " axes, another list " +
                                              std::to_string(list->count));
  int64_t block = 1, positions = 1;
  std::vector<Dim> out = {x.type->dims[0], {}};
  for (int32_t i = 0; i < rank; ++i) {
    const Window window{.in = in.dims.constant(a.image[i]), .kernel = a.block[i], .stride = a.stride[i],
                        .dilation = a.dilation[i], .pad_before = a.before[i], .pad_after = a.after[i], .ceil_mode = false};
    LATHE_TRY(const Dim n, window_extent(in.dims, window, ("axis " + std::to_string(i)).c_str()));
    if (__builtin_mul_overflow(block, int64_t{a.block[i]}, &block) ||
        __builtin_mul_overflow(positions, in.dims.value(n).value_or(0), &positions))
      return fail(Code::kInvalidArgument, "blocks are too large");
    out.push_back(in.dims.constant(a.image[i]));
  }
  LATHE_CHECK_OK(agree(in.dims, in.dims.constant(positions), x.type->dims[2], "number of positions"));
  const auto columns = in.dims.value(x.type->dims[1]);
  if (columns && *columns % block != 0)
    return fail(Code::kInvalidArgument,
                std::to_string(*columns) + " rows do not divide into blocks of " + std::to_string(block));
  out[1] = in.dims.floordiv(x.type->dims[1], in.dims.constant(block));
  return result({x.type->dtype, std::move(out)}, false);
}

// x [n,c,h,w], boxes [b,4], and for each box the index of its image.
Types infer_roi_align(const InferInput& in) {
  const auto& a = std::get<RoiAlignAttrs>(in.attrs);
  const OperandView &x = in.in[0], &boxes = in.in[1], &images = in.in[2];
  LATHE_CHECK_OK(want_real(x, "input"));
  LATHE_CHECK_OK(want_rank(x, 4, "input"));
  LATHE_CHECK_OK(want_same_kind(x, boxes, "boxes"));
  LATHE_CHECK_OK(want_rank(boxes, 2, "boxes"));
  LATHE_CHECK_OK(agree(in.dims, in.dims.constant(4), boxes.type->dims[1], "number of corners"));
  if (!is_index(images.type->dtype))
    return fail(Code::kInvalidArgument, std::string("image indices are ") + dtype_name(images.type->dtype) + ", must be s32 or s64");
  LATHE_CHECK_OK(agree_all(in.dims, std::span(boxes.type->dims).first(1), images.type->dims, "image indices"));
  if (a.height < 1 || a.width < 1 || a.sampling < 0)
    return fail(Code::kInvalidArgument, "height " + std::to_string(a.height) + ", width " + std::to_string(a.width) +
                                            " or sampling " + std::to_string(a.sampling) + " is out of range");
  std::vector<Dim> out = {boxes.type->dims[0], x.type->dims[1], in.dims.constant(a.height), in.dims.constant(a.width)};
  return result({x.type->dtype, std::move(out)}, false);
}

}  // namespace

constinit const OpDef kArgMaxPool2d = {
    .op = Op::kArgMaxPool2d,
    .min_inputs = 1,
    .max_inputs = 1,
    .outputs = 2,
    .infer = infer_arg_max_pool,
};

constinit const OpDef kCol2Im = {
    .op = Op::kCol2Im,
    .min_inputs = 1,
    .max_inputs = 1,
    .outputs = 1,
    .infer = infer_col2im,
    .half = HalfForm::kWidened,
};

constinit const OpDef kRoiAlign = {
    .op = Op::kRoiAlign,
    .min_inputs = 3,
    .max_inputs = 3,
    .outputs = 1,
    .infer = infer_roi_align,
    .quant_in = {{QuantRole::kFloatOnly}, {QuantRole::kFloatOnly}, {QuantRole::kInteger}},
    .half = HalfForm::kWidened,
};

}  // namespace lathe::ops
