#include "graph/import/onnx/expression.h"

#include <numeric>

#include "graph/import/onnx/reshape.h"
#include "runtime/element_types.h"

namespace lathe::onnx {

ValueId Expression::fail_with(Error error) {
  if (ok()) status_ = tl::unexpected<Error>(std::move(error));
  return kNoId;
}

ValueId Expression::operand(size_t i) {
  if (!ok()) return kNoId;
  auto v = n_.value(i);
  return v ? *v : fail_with(std::move(v.error()));
}

ValueId Expression::constant(DType type, std::vector<int64_t> dims, const std::vector<double>& values) {
  if (!ok()) return kNoId;
  ConstTensor t{n_.builder().value_name(n_.name() + ":constant"), type, std::move(dims), {}};
  with_type<kNumberTypes | kBoolTypes>(type, [&](auto element) {
    using E = decltype(element);
    std::vector<typename E::Stored> elements;
    for (const double v : values) {
      // Through s64, so that -1 of an unsigned type is its largest value.
      if constexpr (kIsFloat<typename E::Value>) elements.push_back(static_cast<float>(v));
      else elements.push_back(E::store(static_cast<typename E::Value>(static_cast<int64_t>(v))));
    }
    t.bytes = Constant::of(elements);
  });
  auto v = n_.builder().constant(t);
  return v ? *v : fail_with(std::move(v.error()));
}

ValueId Expression::node(Op op, std::vector<ValueId> inputs, Attrs attrs) {
  if (!ok()) return kNoId;
  auto v = n_.emit(op_name(op), op, std::move(attrs), std::move(inputs));
  return v ? *v : fail_with(std::move(v.error()));
}

ValueId Expression::cast(ValueId x, DType to) {
  return dtype(x) == to ? x : node(Op::kCast, {x}, CastAttrs{static_cast<int32_t>(to)});
}

ValueId Expression::reshape(ValueId x, const std::vector<Dim>& dims) {
  if (!ok() || n_.type(x).dims == dims) return x;
  auto target = reshape_target(n_, "", x, dims);
  return target ? node(Op::kReshape, {x, *target}) : fail_with(std::move(target.error()));
}

Result<void> Expression::finish(Op op, std::vector<ValueId> inputs, Attrs attrs, size_t output) {
  if (!ok()) return status_;
  return n_.finish(op, std::move(attrs), std::move(inputs), output, output == 0 ? "" : "output" + std::to_string(output));
}

Result<void> Expression::finish(ValueId x, size_t output) {
  if (!ok()) return status_;
  n_.bind({x, nullptr}, output);
  return {};
}

int64_t Expression::known_dim(ValueId x, int32_t axis, const char* what) {
  if (!ok()) return 0;
  const auto v = n_.dim(x, static_cast<size_t>(axis));
  if (!v) fail_with({Code::kUnsupported, std::string(what) + " is not known; --shape can fix it"});
  return v.value_or(0);
}

std::vector<double> counting(int64_t count) {
  std::vector<double> out(static_cast<size_t>(count));
  std::iota(out.begin(), out.end(), 0.0);
  return out;
}

}  // namespace lathe::onnx
