// Rules of ops that are linear in each operand and touch axes one by one: resizing, borders, tiles, running sums, Einsum.
#include <algorithm>

#include "graph/grad/rule.h"

namespace lathe::grad {
namespace {

// An axis beyond this would make a matrix of more than 64 MB.
constexpr int64_t kMostExtent = 4096;

// What a step along one axis does as a matrix [out, n]: the op's own result for the unit matrix [n, n].
ValueId matrix_of(Backward& b, Op op, Attrs along_first, int64_t n) {
  if (n > kMostExtent) {
    b.fail(Code::kUnsupported,
           "its gradient needs axes of at most " + std::to_string(kMostExtent) + ", one has " + std::to_string(n));
    return kNoId;
  }
  std::vector<float> unit(static_cast<size_t>(n * n), 0.0f);
  for (int64_t i = 0; i < n; ++i) unit[static_cast<size_t>(i * (n + 1))] = 1.0f;
  const Dim d = b.graph().dims().constant(n);
  const ValueId v = b.graph().add_constant(b.graph().fresh_name("unit"), {DType::kF32, {d, d}}, Constant::of(unit));
  return b.node(op, std::move(along_first), {v});
}

// matrix^T along `axis` of g.
ValueId turned_along(Backward& b, ValueId g, size_t axis, ValueId matrix) {
  const size_t rank = b.rank(g);
  if (rank == 1) return b.reshape(b.node(Op::kMatMul, MatMulAttrs{}, {b.reshape(g, {1, -1}), matrix}), {-1});
  Ints last;  // `axis` changes places with the last one
  for (size_t i = 0; i < rank; ++i)
    last.values[last.count++] = static_cast<int32_t>(i == axis ? rank - 1 : i == rank - 1 ? axis : i);
  if (axis == rank - 1) return b.node(Op::kMatMul, MatMulAttrs{}, {g, matrix});
  return b.transpose(b.node(Op::kMatMul, MatMulAttrs{}, {b.transpose(g, last), matrix}), last);
}

// Summing over a label that this operand alone has repeats the gradient along it.
ValueId einsum_operand_grad(Backward& b, size_t i) {
  const auto& a = b.attrs<EinsumAttrs>();
  const Ints &own = i == 0 ? a.a : a.b, &other = i == 0 ? a.b : a.a;
  const ValueId partner = b.x(1 - i);
  const auto stands_in = [](const Ints& labels, int32_t label) {
    return std::find(labels.values, labels.values + labels.count, label) != labels.values + labels.count;
  };
  EinsumAttrs back{.a = a.y, .b = partner == kNoId ? Ints{} : other, .y = {}};
  std::vector<int64_t> kept;  // target with a 1 for labels that this operand alone has
  for (int32_t k = 0; k < own.count; ++k) {
    if (std::count(own.values, own.values + own.count, own[k]) > 1) {
      b.fail(Code::kUnsupported, "its gradient of a diagonal is not there");
      return kNoId;
    }
    const bool elsewhere = stands_in(a.y, own[k]) || (partner != kNoId && stands_in(other, own[k]));
    if (elsewhere) back.y.values[back.y.count++] = own[k];
    kept.push_back(elsewhere ? 0 : 1);
  }
  std::vector<ValueId> operands{b.dy()};
  if (partner != kNoId) operands.push_back(partner);
  ValueId g = b.node(Op::kEinsum, back, operands);
  if (back.y.count == own.count) return b.sum_to(g, b.x(i));
  std::vector<int64_t> target;
  size_t at = 0;
  for (int32_t k = 0; k < own.count; ++k) {
    const bool alone = kept[static_cast<size_t>(k)] == 1;
    target.push_back(alone ? 1 : b.extent(g, at));
    if (!alone) ++at;
  }
  return b.expand_like(b.reshape(g, target), b.x(i));
}

}  // namespace

void grad_resize(Backward& b) {
  ResizeAttrs a = b.attrs<ResizeAttrs>();
  const size_t axis = static_cast<size_t>(a.axis);
  a.axis = 0;
  a.extrapolation = 0;  // what stands outside does not depend on x
  const ValueId matrix = matrix_of(b, b.node_of().op, a, b.extent(b.x(), axis));
  if (b.ok()) b.set(0, turned_along(b, b.dy(), axis, matrix));
}

// Axis by axis, as their order does not matter.
void grad_border(Backward& b) {
  const auto a = b.attrs<BorderAttrs>();
  ValueId g = b.dy();
  for (int32_t i = 0; i < a.before.count && b.ok(); ++i) {
    if (a.before[i] == 0 && a.after[i] == 0) continue;
    const BorderAttrs first{.before = {2, {a.before[i], 0}}, .after = {2, {a.after[i], 0}}, .mode = a.mode};
    const ValueId matrix = matrix_of(b, Op::kBorder, first, b.extent(b.x(), static_cast<size_t>(i)));
    if (b.ok()) g = turned_along(b, g, static_cast<size_t>(i), matrix);
  }
  b.set(0, g);
}

// The copies add up: an axis of n repeated r times is [r, n].
void grad_tile(Backward& b) {
  const auto a = b.attrs<TileAttrs>();
  ValueId g = b.dy();
  if (b.rank(g) == kMaxRank) return b.fail(Code::kUnsupported, "its gradient needs an axis more than there can be");
  for (int32_t i = 0; i < a.repeats.count && b.ok(); ++i) {
    if (a.repeats[i] == 1) continue;
    std::vector<int64_t> apart;
    bool open = false;
    for (size_t k = 0; k < b.rank(g); ++k) {
      const auto n = b.graph().dims().value(b.graph().value(g).type.dims[k]);
      if (k == static_cast<size_t>(i)) {
        apart.push_back(a.repeats[i]);
        apart.push_back(b.extent(b.x(), k));
        continue;
      }
      apart.push_back(n || open ? b.extent(g, k) : -1);
      open = open || !n;
    }
    g = b.node(Op::kReduceSum, ReduceAttrs{{1, {i}}, 0}, {b.reshape(g, apart)});
  }
  b.set(0, g);
}

// From the other side.
void grad_cum_sum(Backward& b) {
  CumulateAttrs a = b.attrs<CumulateAttrs>();
  a.reverse = a.reverse != 0 ? 0 : 1;
  b.set(0, b.node(Op::kCumSum, a, {b.dy()}));
}

void grad_einsum(Backward& b) {
  for (size_t i = 0; i < 2; ++i)
    if (b.wants(i)) b.set(i, einsum_operand_grad(b, i));
}

}  // namespace lathe::grad
