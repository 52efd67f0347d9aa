// Matrix products.
#include "graph/export/onnx/node_export.h"

namespace lathe::onnx {

// A matrix times a matrix is Gemm, with the bias in it; with more axes it is MatMul and Add.
Result<void> export_fully_connected(NodeExport& e) {
  if (belongs_to_layer(e.graph(), e.node())) return {};
  const std::string x = e.input(0);
  const bool matrix = e.type(0).dims.size() == 2;
  std::vector<std::string> inputs = {x};
  std::vector<std::string> attributes;
  if (matrix) {
    LATHE_TRY(inputs.emplace_back(), e.stored_operand(1, {}));
    attributes.push_back(int_attribute("transB", 1));
  } else {
    LATHE_TRY(inputs.emplace_back(), e.stored_operand(1, {1, 0}));
  }
  std::string bias;
  if (e.has(2)) {
    LATHE_TRY(bias, e.bias_operand(2));
  }
  if (matrix && e.has(2)) inputs.push_back(bias);
  const std::string op = matrix ? "Gemm" : "MatMul";
  const bool adds_bias = !matrix && e.has(2);
  if (!adds_bias && !e.has(3)) return e.result(op, inputs, attributes);
  std::string product = e.step("product", op, inputs, attributes);
  if (adds_bias && e.has(3)) product = e.step("biased", "Add", {product, bias});
  return e.result("Add", {product, e.has(3) ? e.input(3) : bias});
}

namespace {

std::string permuted(NodeExport& e, const std::string& tag, const std::string& x, const Ints& perm) {
  if (perm.count == 0) return x;
  return e.step(tag, "Transpose", {x}, {ints_attribute("perm", {perm.values, perm.values + perm.count})});
}

}  // namespace

Result<void> export_matmul(NodeExport& e) {
  const auto& a = e.attrs<MatMulAttrs>();
  constexpr Ints kSwap{2, {1, 0}};
  // A product of matrices with a factor or a transposed right side is what Gemm says in one node.
  if (e.type(0).dims.size() == 2 && e.type(1).dims.size() == 2 && a.a_perm.count == 0 && a.y_perm.count == 0 &&
      (a.b_perm == kSwap || a.scale != 1.0f)) {
    std::vector<std::string> attributes;
    if (a.scale != 1.0f) attributes.push_back(float_attribute("alpha", a.scale));
    if (a.b_perm == kSwap) attributes.push_back(int_attribute("transB", 1));
    return e.result("Gemm", {e.input(0), e.input(1)}, attributes);
  }
  const std::string x = permuted(e, "a", e.input(0), a.a_perm), y = permuted(e, "b", e.input(1), a.b_perm);
  if (a.scale == 1.0f && a.y_perm.count == 0) return e.result("MatMul", {x, y});
  std::string product = e.step("product", "MatMul", {x, y});
  if (a.y_perm.count == 0) return e.result("Mul", {product, e.real("scale", a.scale)});
  if (a.scale != 1.0f) product = e.step("scaled", "Mul", {product, e.real("scale", a.scale)});
  return e.result("Transpose", {product}, {ints_attribute("perm", {a.y_perm.values, a.y_perm.values + a.y_perm.count})});
}

}  // namespace lathe::onnx
