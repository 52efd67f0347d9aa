#include "graph/file/model_samples.h"

#include <doctest/doctest.h>

#include "graph/graph_run.h"

namespace lathe::test {

std::vector<Sample> samples() {
  const std::string weight_quant = "quant(axis=0, scales=[0.25, 0.5, 0.125], zero_points=[0, 0, 0])";
  return {
      {"float, symbolic batch, batch norm", "input %x : f32[N,6,5,2]\n" + random_f32("w", {3, 3, 3, 2}, 1) +
                                                random_f32("g", {3}, 2, 0.5f, 1.5f) +
                                                "constant %t : s64[2] = [-1, 36]\n%c = Conv2d \"conv\" (%x, %w) "
                                                "{stride=[1,1]}\n%n = BatchNorm (%c, %g, %g, %g, %g) {axis=3}\n"
                                                "%r = Clamp (%n) {lo=0, hi=6}\n%f = Reshape (%r, %t)\noutput %f\noutput %r\n"},
      {"quantized, grouped and depthwise",
       "input %x : s8[N,6,6,3] quant(scale=0.5, zero_point=-7)\n" + random_s8("w", {3, 3, 3, 1}, 3, weight_quant) +
           random_s8("v", {3, 1, 1, 3}, 4, weight_quant) + random_s8("u", {5, 3}, 5, "quant(scale=0.03, zero_point=0)") +
           random_s8("k", {1, 1, 3}, 6, "quant(scale=0.1, zero_point=2)") +
           "constant %b : s32[3] quant(axis=0, scales=[0.125, 0.25, 0.0625], zero_points=[0, 0, 0]) = [100, -200, 3000]\n"
           "%d : s8[N,6,6,3] quant(scale=4, zero_point=-100, qmin=-127) = Conv2d \"dw\" (%x, %w, %b) {pad=[1,1,1,1], groups=3, "
           "lo=0}\n"
           "%p : s8[N,6,6,3] quant(scale=40, zero_point=3) = Conv2d \"pw\" (%d, %v, _, %x)\n%a : s8[N,6,6,3] quant(scale=30, "
           "zero_point=1) = Add (%p, %k)\n"
           "%m : s8[N,3] quant(scale=25, zero_point=4) = Mean (%a) {axes=[1,2], keep_dims=0}\n%y : s8[N,5] quant(scale=2, "
           "zero_point=0) = FullyConnected \"head\" (%m, %u)\noutput %y\n"},
      {"half precision, dense and depthwise",
       "input %x : f32[N,3,3,2]\n%h = Cast (%x) {to=2}\n"
       "constant %w : f16[3,1,1,2] = x\"003c0080004200bc00380044\"\nconstant %d : f16[3,1,1,1] = x\"003c00b80040\"\n" +
           random_f32("b", {3}, 8) +
           "%c = Conv2d (%h, %w, %b)\n%e = Conv2d (%c, %d) {groups=3, lo=0}\n%s = Sigmoid (%e)\n%y = Cast (%s) {to=1}\n"
           "output %y\n"},
      {"concatenation and symbolic sizes",
       "input %x : f32[N,L,4]\ninput %z : f32[N,L,4]\n%c = Concat (%x, %z) {axis=1}\n%s = Slice (%c) {axes=[1], begins=[1], "
       "ends=[1000], steps=[2]}\n%y = Softmax (%s) {axis=2}\noutput %y\n"},
      {"quantized, block-sparse",
       "input %x : s8[N,6,6,4] quant(scale=0.5, zero_point=-7)\n" +
           random_s8("w", {16, 1, 1, 4}, 3, "quant(scale=0.25, zero_point=0)") +
           block_sparse_s8("v", {20, 3, 3, 16}, 4, "quant(scale=0.01, zero_point=0)") +
           "%d : s8[N,6,6,16] quant(scale=4, zero_point=-100) = Conv2d \"dense\" (%x, %w)\n"
           "%y : s8[N,6,6,20] quant(scale=8, zero_point=3) = Conv2d \"sparse\" (%d, %v) {pad=[1,1,1,1]}\noutput %y\n"},
  };
}

FileBytes aligned_copy(const std::vector<uint8_t>& bytes) {
  const Constant copy = Constant::copy(std::as_bytes(std::span(bytes)));
  return {copy.owner, {reinterpret_cast<const uint8_t*>(copy.bytes.data()), bytes.size()}};
}

FileBytes written(const Graph& graph, const WriteOptions& options) {
  const auto bytes = model_bytes(graph, options);
  REQUIRE_MESSAGE(bytes, bytes.error().message);
  return aligned_copy(*bytes);
}

}  // namespace lathe::test
