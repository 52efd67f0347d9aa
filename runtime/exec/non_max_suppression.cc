// NonMaxSuppression: per batch and class the boxes with the highest scores (of equal scores the first one), leaving out each that
// overlaps one taken before by more than the threshold. One task does all: results stand one behind the other.
#include "runtime/exec/checks.h"

namespace lathe {
namespace {

enum Operand : uint32_t { kBoxes, kScores, kMost, kOverlap, kLeast };

struct NmsParams {
  uint32_t batch, classes, boxes;
  uint32_t capacity;  // rows of the result
  uint32_t center;
};

struct Corners {
  float y0, x0, y1, x1;
  float area() const { return (y1 - y0) * (x1 - x0); }
};

Corners corners(const float* b, bool center) {
  if (center) return {b[1] - b[3] / 2, b[0] - b[2] / 2, b[1] + b[3] / 2, b[0] + b[2] / 2};
  return {min_f32(b[0], b[2]), min_f32(b[1], b[3]), max_f32(b[0], b[2]), max_f32(b[1], b[3])};
}

// Intersection over union; boxes without an area overlap nothing.
float overlap(const Corners& a, const Corners& b) {
  const float h = min_f32(a.y1, b.y1) - max_f32(a.y0, b.y0), w = min_f32(a.x1, b.x1) - max_f32(a.x0, b.x0);
  if (!(h > 0) || !(w > 0) || !(a.area() > 0) || !(b.area() > 0)) return 0;
  return h * w / (a.area() + b.area() - h * w);
}

// Takes boxes of one class into `taken`, at most `most`; `left` [boxes] says which may still be taken.
uint32_t take_class(const NmsParams& p, const float* boxes, const float* scores, float limit, uint32_t most, uint8_t* left,
                    int64_t* taken, uint32_t stride) {
  uint32_t count = 0;
  while (count < most) {
    uint32_t best = p.boxes;
    for (uint32_t i = 0; i < p.boxes; ++i)
      if (left[i] != 0 && (best == p.boxes || scores[i] > scores[best])) best = i;
    if (best == p.boxes) return count;
    taken[count++ * stride] = best;
    left[best] = 0;
    const Corners box = corners(boxes + best * 4, p.center != 0);
    for (uint32_t i = 0; i < p.boxes; ++i)
      if (left[i] != 0 && overlap(box, corners(boxes + i * 4, p.center != 0)) > limit) left[i] = 0;
  }
  return count;
}

float optional(const RunContext& ctx, const BoundStep& step, uint32_t i, float absent) {
  const float* v = ctx.in<float>(step, i);
  return v == nullptr ? absent : *v;
}

bool is_single(const PrepareInput& in, uint32_t i, DType dtype) {
  return i >= in.step->n_in || !in.has(i) || (in.tensor(i).dtype == dtype && is_plain(in, i) && elems(in, i) == 1);
}

}  // namespace

Status prepare_NonMaxSuppression(const PrepareInput& in, Prepared* out) {
  const Shape &boxes = in.shape(kBoxes), &scores = in.shape(kScores), &rows = in.shape(in.out(0));
  if (!is_f32(in, kBoxes) || !is_f32(in, kScores)) return unsupported_operand(in, kBoxes);
  if (boxes.rank != 3 || scores.rank != 3 || boxes.dims[2] != 4 || boxes.dims[0] != scores.dims[0] ||
      boxes.dims[1] != scores.dims[2])
    return refuse(in, Code::kInvalidArgument, boxes.elems(), scores.elems());
  if (!is_single(in, kMost, DType::kS64) || !is_single(in, kOverlap, DType::kF32) || !is_single(in, kLeast, DType::kF32))
    return refuse(in, Code::kInvalidArgument);
  if (in.tensor(in.out(0)).dtype != DType::kS64 || rows.rank != 2 || rows.dims[1] != 3)
    return refuse(in, Code::kInvalidArgument, 3, rows.rank);
  if (in.tensor(in.out(1)).dtype != DType::kS64 || in.shape(in.out(1)).elems() != 1) return refuse(in, Code::kInvalidArgument);
  NmsParams& p = out->make<NmsParams>();
  p.batch = static_cast<uint32_t>(boxes.dims[0]);
  p.boxes = static_cast<uint32_t>(boxes.dims[1]);
  p.classes = static_cast<uint32_t>(scores.dims[1]);
  p.capacity = static_cast<uint32_t>(rows.dims[0]);
  p.center = in.program->attrs<NmsAttrs>(*in.step).center != 0 ? 1 : 0;
  out->scratch_bytes = p.boxes;
  out->exact_input_mask = 0x1f;
  return {};
}

void run_NonMaxSuppression(const RunContext& ctx, const BoundStep& step) {
  const NmsParams& p = ctx.params<NmsParams>(step);
  const int64_t* given = ctx.in<int64_t>(step, kMost);
  const float limit = optional(ctx, step, kOverlap, 0), least = optional(ctx, step, kLeast, -kInfinity);
  const bool has_least = ctx.in<float>(step, kLeast) != nullptr;
  const int64_t asked = given == nullptr ? 0 : *given;
  int64_t* rows = ctx.out<int64_t>(step, 0);
  uint8_t* left = ctx.scratch(step);
  __builtin_memset(rows, 0, static_cast<uint64_t>(p.capacity) * 3 * sizeof(int64_t));
  uint32_t count = 0;
  for (uint32_t k = 0; k < p.batch * p.classes; ++k) {
    const float* scores = ctx.in<float>(step, kScores) + static_cast<uint64_t>(k) * p.boxes;
    const uint32_t b = k / p.classes, room = p.capacity - count;
    const uint32_t most = asked <= 0 ? 0 : asked < static_cast<int64_t>(room) ? static_cast<uint32_t>(asked) : room;
    for (uint32_t i = 0; i < p.boxes; ++i) left[i] = !has_least || scores[i] > least ? 1 : 0;
    const uint32_t taken = take_class(p, ctx.in<float>(step, kBoxes) + static_cast<uint64_t>(b) * p.boxes * 4, scores, limit,
                                      most, left, rows + static_cast<uint64_t>(count) * 3 + 2, 3);
    for (uint32_t i = count; i < count + taken; ++i) rows[i * 3] = b, rows[i * 3 + 1] = k % p.classes;
    count += taken;
  }
  *ctx.out<int64_t>(step, 1) = count;
}

}  // namespace lathe
