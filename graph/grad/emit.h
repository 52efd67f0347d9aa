// Writes nodes as expressions. The first node that fails is remembered, later ones do nothing and give kNoId, so that rules
// read like the formulas they are; the caller asks ok() at the end. Not thread-safe.
#pragma once
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "graph/op_def.h"

namespace lathe::grad {

class Emitter {
 public:
  // New nodes are called `stem`, with a number.
  Emitter(Graph& graph, std::string stem) : graph_(graph), stem_(std::move(stem)) {}

  Graph& graph() const { return graph_; }
  const Result<void>& ok() const { return ok_; }
  void fail(Code code, std::string message);

  // Appends a node; returns all its results, or its first.
  std::vector<ValueId> nodes(Op op, Attrs attrs, std::vector<ValueId> inputs);
  ValueId node(Op op, Attrs attrs, std::vector<ValueId> inputs);

  ValueId scalar(float v);
  ValueId integers(const std::vector<int64_t>& v);  // a vector of s64

  ValueId add(ValueId a, ValueId b) { return node(Op::kAdd, BinaryAttrs{}, {a, b}); }
  ValueId sub(ValueId a, ValueId b) { return node(Op::kSub, BinaryAttrs{}, {a, b}); }
  ValueId mul(ValueId a, ValueId b) { return node(Op::kMul, BinaryAttrs{}, {a, b}); }
  ValueId div(ValueId a, ValueId b) { return node(Op::kDiv, BinaryAttrs{}, {a, b}); }
  ValueId add(ValueId a, float b) { return add(a, scalar(b)); }
  ValueId mul(ValueId a, float b) { return mul(a, scalar(b)); }
  ValueId fn(Op op, ValueId a) { return node(op, default_attrs(op), {a}); }
  ValueId square(ValueId a) { return mul(a, a); }
  // `a` where the condition holds, else 0; and the other way round.
  ValueId where(ValueId condition, ValueId a, ValueId b) { return node(Op::kWhere, NoAttrs{}, {condition, a, b}); }

  ValueId transpose(ValueId a, const Ints& perm) { return node(Op::kTranspose, PermAttrs{perm}, {a}); }
  ValueId swap_last(ValueId a);  // the last two axes
  ValueId reshape(ValueId a, const std::vector<int64_t>& target) { return node(Op::kReshape, NoAttrs{}, {a, integers(target)}); }
  ValueId shape_of(ValueId a) { return node(Op::kShape, NoAttrs{}, {a}); }
  ValueId reshape_like(ValueId a, ValueId like) { return node(Op::kReshape, NoAttrs{}, {a, shape_of(like)}); }
  ValueId expand_like(ValueId a, ValueId like) { return node(Op::kExpand, NoAttrs{}, {a, shape_of(like)}); }
  ValueId zeros_like(ValueId like) { return expand_like(scalar(0), like); }
  // Keeps the axes, as 1.
  ValueId sum(ValueId a, const Ints& axes) { return node(Op::kReduceSum, ReduceAttrs{axes, 1}, {a}); }
  ValueId mean(ValueId a, const Ints& axes) { return node(Op::kMean, ReduceAttrs{axes, 1}, {a}); }
  // The sum over what broadcasting `like` to a's shape repeated, in the shape of `like`.
  ValueId sum_to(ValueId a, ValueId like);
  // A vector along `axis` of something of this rank.
  ValueId along(ValueId vector, size_t axis, size_t rank);
  // How many elements of `a` lie along `axes`, as f32.
  ValueId count(ValueId a, const Ints& axes);

  size_t rank(ValueId a) const { return a == kNoId ? 0 : graph_.value(a).type.dims.size(); }
  // The extent of an axis; an error if it is not a constant.
  int64_t extent(ValueId a, size_t axis);

 private:
  Graph& graph_;
  std::string stem_;
  Result<void> ok_ = {};
};

// All axes from `first` on.
Ints axes_from(size_t first, size_t rank);
// All axes but one.
Ints axes_but(size_t axis, size_t rank);
// The permutation that undoes `perm`.
Ints inverse(const Ints& perm);

}  // namespace lathe::grad
