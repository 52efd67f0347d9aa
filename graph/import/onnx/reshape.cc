#include "graph/import/onnx/reshape.h"

#include <algorithm>

#include "graph/op_def.h"

namespace lathe::onnx {
namespace {

// Elements that are in `from` are gathered from x's shape; the others are numbers, one of them -1 at most. Kept in the graph,
// where lowering drops it: the target of a reshape must be a value, and only nodes make values that depend on symbols.
Result<ValueId> computed_target(NodeImport& n, const std::string& prefix, ValueId x, const std::vector<Dim>& dims) {
  const std::vector<Dim> from = n.type(x).dims;
  LATHE_TRY(const ValueId shape, n.emit(prefix + "shape", Op::kShape, NoAttrs{}, {x}));
  std::vector<ValueId> parts;
  bool has_rest = false;
  for (Dim d : dims) {
    const std::string tag = prefix + "target" + std::to_string(parts.size());
    const auto number = n.dims().value(d);
    const auto at = std::find(from.begin(), from.end(), d);
    if (!number && at != from.end()) {
      LATHE_TRY(const ValueId index, n.integers_constant(tag, {at - from.begin()}));
      LATHE_TRY(parts.emplace_back(), n.emit(tag, Op::kGather, AxisAttrs{0}, {shape, index}));
      continue;
    }
    if (!number && has_rest)
      return fail(Code::kUnsupported, "a result with several dims that are not known is not supported; --shape can fix them");
    has_rest = has_rest || !number;
    LATHE_TRY(parts.emplace_back(), n.integers_constant(tag, {number.value_or(-1)}));
  }
  return n.emit(prefix + "target", Op::kConcat, AxisAttrs{0}, parts);
}

}  // namespace

Result<ValueId> reshape_target(NodeImport& n, const std::string& prefix, ValueId x, const std::vector<Dim>& dims) {
  std::vector<int64_t> numbers;
  for (Dim d : dims) numbers.push_back(n.dims().value(d).value_or(-1));
  if (std::count(numbers.begin(), numbers.end(), -1) > 1) return computed_target(n, prefix, x, dims);
  return n.integers_constant(prefix + "target", numbers);
}

Result<std::vector<Dim>> operand_dims(NodeImport& n) {
  const Binding b = n.binding(0);
  if (b.tensor) return n.builder().tensor_type(*b.tensor).dims;
  LATHE_TRY(const ValueId x, n.value(0));
  return n.type(x).dims;
}

Result<std::vector<Dim>> reshaped_dims(NodeImport& n, const std::vector<Dim>& from, const std::vector<Dim>& target) {
  if (target.size() > kMaxRank)
    return fail(Code::kUnsupported,
                "a result of rank " + std::to_string(target.size()) + " is over the limit of " + std::to_string(kMaxRank));
  const TensorType x{DType::kF32, from}, shape{DType::kS64, {n.dims().constant(static_cast<int64_t>(target.size()))}};
  const std::optional<Quant> none;
  const OperandView views[2] = {{.type = &x, .quant = &none}, {.type = &shape, .quant = &none, .contents = &target}};
  const Attrs attrs = NoAttrs{};
  LATHE_TRY(const auto inferred, op_def(Op::kReshape).infer({n.dims(), views, attrs}));
  return inferred[0].type.dims;
}

Result<void> finish_reshaped(NodeImport& n, ValueId x, const std::vector<Dim>& dims, const std::string& tag, size_t output) {
  LATHE_TRY(const ValueId target, reshape_target(n, tag.empty() ? "" : tag + ":", x, dims));
  return n.finish(Op::kReshape, NoAttrs{}, {x, target}, output, tag);
}

Result<ValueId> reshaped(NodeImport& n, const std::string& tag, ValueId x, const std::vector<Dim>& dims) {
  LATHE_TRY(const ValueId target, reshape_target(n, tag + ":", x, dims));
  return n.emit(tag, Op::kReshape, NoAttrs{}, {x, target});
}

Result<ValueId> reshaped(NodeImport& n, const std::string& tag, ValueId x, const std::vector<int64_t>& dims) {
  LATHE_TRY(const ValueId target, n.integers_constant(tag + ":target", dims));
  return n.emit(tag, Op::kReshape, NoAttrs{}, {x, target});
}

Result<void> finish_reshaped(NodeImport& n, const std::vector<Dim>& dims) {
  const bool known = std::all_of(dims.begin(), dims.end(), [&](Dim d) { return n.dims().value(d).has_value(); });
  if (const Binding b = n.binding(0); b.tensor && known) {
    ConstTensor t = *b.tensor;
    t.dims.clear();
    for (Dim d : dims) t.dims.push_back(*n.dims().value(d));
    return n.bind_constant(std::move(t));
  }
  LATHE_TRY(const ValueId x, n.value(0));
  return finish_reshaped(n, x, dims);
}

}  // namespace lathe::onnx
