// Several nodes for one ONNX node, written as an expression:
//
//   Expression e(n);
//   const ValueId x = e.operand(0);
//   return e.finish(Op::kDiv, {x, e.node(Op::kAdd, {e.node(Op::kAbs, {x}), e.number(x, 1)})});
//
// The first error ends it: what follows does nothing and gives kNoId, and finish() returns that error.
#pragma once
#include <vector>

#include "graph/import/onnx/importer.h"

namespace lathe::onnx {

class Expression {
 public:
  explicit Expression(NodeImport& n) : n_(n) {}

  NodeImport& import() { return n_; }
  bool ok() const { return status_.has_value(); }
  Result<void> status() const { return status_; }
  // Remembers an error; gives kNoId.
  ValueId fail_with(Error error);

  ValueId operand(size_t i);
  // A constant of x's type: one element, or a vector reshaped to `dims`.
  ValueId number(ValueId x, double v) { return constant(dtype(x), {}, {v}); }
  ValueId constant(DType type, std::vector<int64_t> dims, const std::vector<double>& values);

  // The result of a new node. Without attributes: the op's defaults.
  ValueId node(Op op, std::vector<ValueId> inputs) { return node(op, std::move(inputs), default_attrs(op)); }
  ValueId node(Op op, std::vector<ValueId> inputs, Attrs attrs);
  ValueId cast(ValueId x, DType to);  // x itself if it has that type
  // x with other dims of as many elements; those that are not known are dims of x.
  ValueId reshape(ValueId x, const std::vector<Dim>& dims);

  // The node whose result is output `output`.
  Result<void> finish(Op op, std::vector<ValueId> inputs, size_t output = 0) {
    return finish(op, std::move(inputs), default_attrs(op), output);
  }
  Result<void> finish(Op op, std::vector<ValueId> inputs, Attrs attrs, size_t output = 0);
  // Output `output` is x: for results that are no new node.
  Result<void> finish(ValueId x, size_t output = 0);

  // After an error: f32 and no dims.
  DType dtype(ValueId x) const { return x == kNoId ? DType::kF32 : n_.type(x).dtype; }
  std::vector<Dim> dims(ValueId x) const { return x == kNoId ? std::vector<Dim>{} : n_.type(x).dims; }
  // Number of dim `axis` of x; an error (kUnsupported) that names `what` if it is not known.
  int64_t known_dim(ValueId x, int32_t axis, const char* what);

 private:
  NodeImport& n_;
  Result<void> status_;
};

// The lists 0, 1, ..., count - 1 as values of a constant.
std::vector<double> counting(int64_t count);

}  // namespace lathe::onnx
