// ONNX export: what stands in the file, and that importing it gives the graph and its numbers again. An independent runtime's
// numbers: tests/oracle/compare_export.py.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "graph/export/onnx/export_onnx.h"
#include "graph/export/onnx/node_export.h"
#include "graph/graph_run.h"
#include "graph/import/onnx/import_onnx.h"
#include "graph/import/onnx/model_proto.h"
#include "tests/graph/export/canonical_text.h"
#include "tests/test_data.h"

namespace lathe::test {
namespace {

OnnxFile exported(const Graph& graph) {
  auto file = export_onnx(graph);
  REQUIRE_MESSAGE(file, file.error().message);
  return std::move(*file);
}

Graph imported(const OnnxFile& file) {
  const auto owner = std::make_shared<std::string>(file.bytes);
  auto graph = import_onnx(OnnxSource{owner, std::as_bytes(std::span<const char>(*owner)), {}}, {});
  REQUIRE_MESSAGE(graph, graph.error().message);
  return std::move(*graph);
}

onnx::ModelProto proto_of(const OnnxFile& file) {
  auto proto = onnx::parse_model(std::as_bytes(std::span<const char>(file.bytes)));
  REQUIRE_MESSAGE(proto, proto.error().message);
  return std::move(*proto);
}

// Operators of the file, in order.
std::string file_ops(const OnnxFile& file) {
  std::string s;
  const onnx::ModelProto proto = proto_of(file);
  for (const auto& n : proto.graph->nodes) s += (s.empty() ? "" : " ") + std::string(n.op_type);
  return s;
}

const std::string kQuant = " quant(scale=0.05, zero_point=-9)";

const std::string kQuantizedConv =
    "input %f : f32[N,6,6,4]\n%x" + kQuant + " = Quantize (%f)\n" +
    random_s8("w", {2, 3, 3, 4}, 1, "quant(axis=0, scales=[0.01, 0.02])") + "constant %b : s32[2] = [100, -50]\n%c" + kQuant +
    " = Conv2d (%x, %w, %b) {lo=0}\n%m = MaxPool2d (%c) {kernel=[2,2]}\n%y = Dequantize (%m)\noutput %y\n";

struct Case {
  std::string body, ops;
  int64_t opset = 17;
  bool same = true;  // what is imported again is this graph; not if import writes it differently, clamps for example
};

// One op each, or a few; operators of the file.
const Case kCases[] = {
    {"input %x : f32[N,6,6,4]\n" + random_f32("w", {6, 3, 3, 4}, 1) + random_f32("b", {6}, 2) +
         "%y = Conv2d (%x, %w, %b) {stride=[2,1], pad=[1,0,1,1], lo=0, hi=6}\noutput %y\n",
     "Transpose Conv Clip Transpose", 17, false},
    {"input %x : f32[N,6,6,4]\n" + random_f32("w", {4, 3, 3, 2}, 1) +
         "%y = Conv2d (%x, %w, _, %x) {pad=[1,1,1,1], groups=2, lo=0}\noutput %y\n",
     "Transpose Conv Add Relu Transpose", 17, false},
    {"input %x : f32[N,4,6,6]\n" + random_f32("w", {6, 3, 3, 4}, 1) + random_f32("c", {6}, 3) +
         "%t = Transpose (%x) {perm=[0,2,3,1]}\n%c1 = Conv2d (%t, %w)\n%a = Add (%c1, %c)\n%m = MaxPool2d (%a) {kernel=[2,2], "
         "stride=[2,2]}\n%y = Transpose (%m) {perm=[0,3,1,2]}\noutput %y\n",
     "Conv Add MaxPool", 17, false},
    {"input %x : f32[1,4,5,6]\n" + random_f32("w", {8, 3, 2, 3}, 1) +
         "%y = ConvTranspose2d (%x, %w) {stride=[2,2], groups=2, output_pad=[1,0], pad=[1,0,0,0]}\noutput %y\n",
     "Transpose ConvTranspose Transpose"},
    {"input %x : f32[1,4,5,6]\n%p = AvgPool2d (%x) {kernel=[2,2], pad=[1,1,0,0], count_pad=1}\n%y = Mean (%p) "
     "{axes=[1,2]}\noutput %y\n",
     "Transpose AveragePool GlobalAveragePool Transpose"},
    {"input %x : f32[1,4,5,6]\n%p = MaxPool2d (%x) {kernel=[2,2], dilation=[2,1], ceil_mode=1}\n%y = Mean (%p) {axes=[1,2], "
     "keep_dims=0}\noutput %y\n",
     "Transpose MaxPool ReduceMean"},
    {"input %x : f32[N,8]\n" + random_f32("w", {5, 8}, 1) + random_f32("b", {5}, 2) +
         "%y = FullyConnected (%x, %w, %b) {lo=0}\noutput %y\n",
     "Gemm Relu", 17, false},
    {"input %x : f32[N,3,8]\n" + random_f32("w", {8, 8}, 1) + random_f32("b", {8}, 2) +
         "%y = FullyConnected (%x, %w, %b, %x)\noutput %y\n",
     "MatMul Add Add", 17, false},
    {"input %x : f32[N,3,8]\n%y = MatMul (%x, %x) {b_perm=[0,2,1], scale=0.5, hi=1}\noutput %y\n"
     "", "Transpose MatMul Mul Clip", 17, false},
    {"input %x : f32[3,8]\n%y = MatMul (%x, %x) {b_perm=[1,0], scale=0.5}\noutput %y\n", "Gemm"},
    {"input %x : f32[N,3,2,8]\n%y = MatMul (%x, %x) {a_perm=[0,2,1,3], b_perm=[0,2,3,1], y_perm=[0,2,1,3]}\noutput %y\n",
     "Transpose Transpose MatMul Transpose", 17, false},
    {"input %x : f32[N,8]\nconstant %c : f32[8] = [1, 2, 3, 4, 5, 6, 7, 8]\n%a = Sub (%x, %c)\n%b = Div (%a, %c)\n%d = Mul (%b, "
     "%x)\n"
     "%y = Add (%d, %c) {lo=-1, hi=3}\noutput %y\n",
     "Sub Div Mul Add Clip", 17, false},
    {"input %x : f32[N,8]\n%a = Sigmoid (%x)\n%b = Tanh (%a)\n%c = Exp (%b)\n%d = Sqrt (%c)\n%e = Erf (%d)\n%f = HardSwish (%e)\n"
     "%g = LeakyRelu (%f) {alpha=0.1}\n%h = Silu (%g)\n%i = Clamp (%h) {lo=0}\n%j = Clamp (%i) {lo=-1, hi=0.5}\n%k = Clamp (%j) "
     "{hi=0.4}\n"
     "%y = Softmax (%k) {axis=1}\noutput %y\n",
     "Sigmoid Tanh Exp Sqrt Erf HardSwish LeakyRelu Sigmoid Mul Relu Clip Clip Softmax", 17, false},
    {"input %x : f32[N,2,8]\nconstant %h : f32[] = [0.5]\n%a = Abs (%x)\n%b = Log (%a)\n%c = Max (%b, %h)\n%d = Pow (%c, %h)\n%e "
     "= Elu (%d) "
     "{alpha=0.5}\n%f = HardSigmoid (%e)\n%g = Mish (%f)\n%i = Floor (%g)\n%j = ReduceSum (%i) {axes=[1]}\n%y = ReduceMax (%j) "
     "{axes=[2], "
     "keep_dims=0}\noutput %y\n",
     "Abs Log Max Pow Elu HardSigmoid Softplus Tanh Mul Floor ReduceSum ReduceMax", 17, false},
    {"input %x : f32[N,2,8]\n%m = Mean (%x) {axes=[2]}\n%y = Gelu (%m)\noutput %y\n", "ReduceMean Gelu", 20},
    {"input %x : f32[N,8]\n%y = Gelu (%x) {approximate=1}\noutput %y\n", "Gelu", 20},
    {"input %x : f32[N,8]\nconstant %g : f32[8] = splat 1.5\nconstant %b : f32[8] = splat 0.5\n%y = LayerNorm (%x, %g, %b) "
     "{axis=1, epsilon=0.001}\noutput %y\n",
     "LayerNormalization"},
    {"input %x : f32[N,3,4]\nconstant %s : f32[3] = splat 1.5\nconstant %v : f32[3] = splat 0.5\n%y = BatchNorm (%x, %s, %v, %v, "
     "%s) {axis=1}\noutput %y\n",
     "BatchNormalization"},
    {"input %x : f32[2,12]\nconstant %t : s64[3] = [2, 3, 4]\n%a = Reshape (%x, %t)\n%b = Transpose (%a) {perm=[0,2,1]}\n"
     "%c = Concat (%b, %b) {axis=2}\n%d = Slice (%c) {axes=[1,2], begins=[0,-1], ends=[3,-2147483648], steps=[2,-1]}\n"
     "%y = Pad (%d) {before=[0,1,0], after=[0,0,2], value=0.5}\noutput %y\n",
     "Reshape Transpose Concat Slice Pad", 17, false},
    {"input %x : f32[4,8]\nconstant %i : s64[2] = [1, 3]\n%g = Gather (%x, %i)\n%c = Cast (%g) {to=8}\n%y = Cast (%c) "
     "{to=1}\noutput %y\n",
     "Gather Cast Cast"},
    // Quantized graphs.
    {kQuantizedConv,
     "QuantizeLinear DequantizeLinear DequantizeLinear Transpose DequantizeLinear Conv Relu QuantizeLinear DequantizeLinear "
     "MaxPool QuantizeLinear DequantizeLinear Transpose"},
    {"input %f : f32[N,8]\n%x" + kQuant + " = Quantize (%f)\n" + random_s8("w", {5, 8}, 1, "quant(scale=0.01, zero_point=0)") +
         "constant %b : s32[5] = [100, -50, 1, 2, 3]\n%c quant(scale=0.03, zero_point=1) = FullyConnected (%x, %w, %b)\n"
         "%r quant(scale=0.04, zero_point=0) = Regrid (%c)\n%y = Dequantize (%r)\noutput %y\n",
     "QuantizeLinear DequantizeLinear DequantizeLinear DequantizeLinear Gemm QuantizeLinear DequantizeLinear QuantizeLinear "
     "DequantizeLinear"},
    {"input %f : f32[1,2,3,8]\n%x" + kQuant +
         " = Quantize (%f)\n%m quant(scale=0.1, zero_point=2) = MatMul (%x, %x) {b_perm=[0,1,3,2], scale=0.5}\n"
         "%s quant(scale=0.05, zero_point=-20) = Silu (%m)\n%y = Dequantize (%s)\noutput %y\n",
     "QuantizeLinear DequantizeLinear Transpose MatMul Mul QuantizeLinear DequantizeLinear Sigmoid Mul QuantizeLinear "
     "DequantizeLinear"},
    {"input %u : u8[N,8]\n%x" + kQuant +
         " = FromInteger (%u)\n%a quant(scale=0.1, zero_point=2) = Add (%x, %x)\n%y = ToInteger (%a) {to=5}\noutput %y\n",
     "DequantizeLinear Add QuantizeLinear DequantizeLinear QuantizeLinear"},
    {"input %x : f32[2,6]\nconstant %s : f32[2,2] = [1, 2, 0.5, 0.25]\n%q = QuantizeLinear (%x, %s) {axis=1, block=3, to=6}\n"
     "%y = DequantizeLinear (%q, %s) {axis=1, block=3}\noutput %y\n",
     "QuantizeLinear DequantizeLinear", 21},
    // Elementwise.
    {"input %x : f32[N,6]\n%a = Sin (%x)\n%b = Cos (%a)\n%c = Tan (%b)\n%d = Tanh (%c)\n%e = Asin (%d)\n"
     "%f = Sinh (%e)\n%g = Cosh "
     "(%f)\n%h = Acosh (%g)\n%i = Atan (%h)\n%j = Cos (%i)\n%k = Acos (%j)\n%l = Tanh (%k)\n%m = Atanh (%l)\n%n = Asinh (%m)\n"
     "%o = Softplus (%n)\n%y = Mul (%o, %o)\noutput %y\n",
     "Sin Cos Tan Tanh Asin Sinh Cosh Acosh Atan Cos Acos Tanh Atanh Asinh Softplus Mul"},
    {"input %x : f32[4,6]\nconstant %h : f32[] = [0.5]\n%a = Ceil (%x)\n%b = Round (%x)\n%c = Sign (%x)\n%d = Min (%a, %b)\n%e = "
     "Less (%d, %h)\n%f = LessEqual (%c, %h)\n%g = BitAnd (%e, %f)\n%i = Equal (%d, %c)\n%j = BitOr (%g, %i)\n"
     "%k = BitXor (%j, %e)\n"
     "%y = Where (%k, %x, %h)\noutput %y\n",
     "Ceil Round Sign Min Less LessOrEqual And Equal Or Xor Where"},
    {"input %x : s32[4]\nconstant %c : s32[4] = [1, 2, 3, 4]\n%a = Mod (%x, %c)\n%b = BitAnd (%a, %c)\n%d = BitOr (%b, %x)\n"
     "%e = BitXor (%d, %c)\n%f = ReduceMin (%e) {axes=[0]}\n%y = BitCast (%f) {to=8}\noutput %y\n",
     "Mod BitwiseAnd BitwiseOr BitwiseXor ReduceMin BitCast", 26},
    {"input %x : u8[4]\nconstant %c : u8[4] = [1, 2, 3, 4]\n%a = BitShift (%x, %c)\n%y = BitShift (%a, %c) {left=0}\noutput %y\n",
     "BitShift BitShift"},
    {"input %x : f32[3,4]\nconstant %c : f32[4] = [1, 2, 3, 4]\n%a = Mod (%x, %c) {truncated=1}\n%y = ReduceProd (%a) "
     "{axes=[0]}\noutput %y\n",
     "Mod ReduceProd"},
    {"input %x : f32[3,4]\n%a = Elu (%x) {alpha=1.5, gamma=1.05}\n%y = Elu (%a) {alpha=0.5, beta=2}\noutput %y\n", "Selu Celu"},
    // Searches, running sums, determinants.
    {"input %x : f32[2,3,4]\n%a = ArgMax (%x) {axis=2, last=1}\n%b = ArgMin (%x) {axis=2}\n%y = Sub (%a, %b)\noutput %y\n",
     "ArgMax ArgMin Sub"},
    {"input %x : f32[2,5]\n%v, %i = TopK (%x) {axis=1, k=3, largest=0}\n%a = CumSum (%v) {axis=1, reverse=1}\n%y = CumProd (%a) "
     "{axis=0, exclusive=1}\noutput %y\n",
     "TopK CumSum CumProd", 26},
    {"input %x : f32[2,3,3]\n%a = Trilu (%x) {upper=0, k=1}\n%y = Det (%a)\noutput %y\n", "Trilu Det"},
    {"input %x : f32[2,3,4]\ninput %w : f32[3,4,4]\n%y = Einsum (%x, %w) {a=[0,1,2], b=[1,2,2], y=[2,0]}\noutput %y\n", "Einsum"},
    // Movement by index.
    {"input %x : f32[2,6]\nconstant %t : s64[3] = [4, 2, 6]\n%a = Expand (%x, %t)\n%b = Tile (%a) {repeats=[1,2,1]}\n%y = Border "
     "(%b) {before=[0,1,2], after=[0,0,1], mode=1}\noutput %y\n",
     "Expand Tile Pad"},
    {"input %x : f32[4,3]\nconstant %i : s64[2,1] = [1, 3]\nconstant %j : s64[2,3] = [0, 1, 2, 3, 2, 1]\n"
     "%a = GatherNd (%x, %i)\n%b "
     "= GatherElements (%x, %j)\n%c = ScatterNd (%x, %i, %a) {reduction=1}\n%y = ScatterElements (%c, %j, %b) {axis=0, "
     "reduction=4}\noutput %y\n",
     "GatherND GatherElements ScatterND ScatterElements", 18},
    {"input %x : f32[2,4,3]\ninput %u : f32[2,1,3]\nconstant %p : s64[2] = [1, 2]\n"
     "%a = TensorScatter (%x, %u, %p) {axis=1}\n%y = "
     "ReverseSequence (%a, %p) {batch_axis=0, time_axis=1}\noutput %y\n",
     "TensorScatter ReverseSequence", 24},
    {"input %x : s64[3]\nconstant %v : f32[2] = [-1, 2]\n%y = OneHot (%x, %v) {axis=0, depth=4}\noutput %y\n", "OneHot"},
    {"constant %s : s64[] = [2]\nconstant %l : s64[] = [11]\nconstant %d : s64[] = [3]\nconstant %n : s64[1] = [3]\ninput %x : "
     "s64[3]\n%r = Range (%s, %l, %d, %n)\n%y = Add (%x, %r)\noutput %y\n",
     "Range Add", 17, false},
    {"input %x : f32[M,2]\nconstant %o : s64[] = [0]\nconstant %d : s64[] = [1]\nconstant %i : s64[] = [0]\n"
     "%s = Shape (%x)\n%l = "
     "Gather (%s, %i)\n%c = RangeCount (%o, %l, %d)\n%y = Range (%o, %l, %d, %c)\noutput %y\n",
     "Shape Gather Range"},
    // Sizes that depend on data.
    {"input %x : f32[2,3]\n%a, %n = NonZero (%x)\n%e = Extents (%n)\n%y = Trim (%a, %e) {axis=1}\noutput %y\n", "NonZero"},
    {"input %x : f32[4,3]\nconstant %c : bool[4] = [1, 0, 1, 1]\n%a, %n = Compress (%x, %c)\n%e = Extents (%n)\n%y = Trim (%a, "
     "%e)\noutput %y\n",
     "Compress"},
    {"input %x : f32[6]\n%a, %f, %i, %k, %n = Unique (%x)\n%e = Extents (%n)\n%y = Trim (%a, %e)\n%z = Gather (%y, %i)\noutput "
     "%z\n",
     "Unique Gather"},
    {"input %b : f32[1,6,4]\ninput %s : f32[1,2,6]\nconstant %m : s64[1] = [2]\n%a, %n = NonMaxSuppression (%b, %s, %m) "
     "{center=1}\n%e = Extents (%n)\n%y = Trim (%a, %e)\noutput %y\n",
     "NonMaxSuppression"},
    {"input %x : f32[2,6]\ninput %t : s64[2]\n%u = Add (%t, %t)\n%d = TargetDims (%x, %u) {keep_zeros=1}\n%e = Extents (%d)\n"
     "%y = Reshape (%x, %e)\noutput %y\n",
     "Add Reshape"},
    // Windows and sizes of images.
    {"input %x : f32[1,2,5,6]\n%m, %i = ArgMaxPool2d (%x) {kernel=[2,2], stride=[2,1], pad=[1,0,0,0]}\n%y = Cast (%i) "
     "{to=1}\noutput %y\n",
     "MaxPool Cast"},
    {"input %x : f32[1,8,6]\n%y = Col2Im (%x) {image=[3,4], block=[2,2], stride=[1,1], dilation=[1,1], before=[0,0], "
     "after=[0,0]}\noutput %y\n",
     "Col2Im", 18},
    {"input %x : f32[1,2,5,6]\nconstant %b : f32[2,4] = [0, 0, 3, 3, 1, 1, 4, 2]\nconstant %i : s64[2] = [0, 0]\n%y = RoiAlign "
     "(%x, %b, %i) {height=2, width=3, sampling=2, spatial_scale=0.5, use_max=1}\noutput %y\n",
     "RoiAlign"},
    {"input %x : f32[1,4,6,H]\n%t = Transpose (%x) {perm=[0,2,3,1]}\n%m = MaxPool2d (%t) {kernel=[2,2]}\n%a = ResizeNearest (%m) "
     "{axis=1, size=10, scale=2, nearest=2, coordinates=4}\n"
     "%b = Resize (%a) {axis=2, scale_up=3, scale_down=2, scale=1.5, mode=1}\n"
     "%y = Transpose (%b) {perm=[0,3,1,2]}\noutput %y\n",
     "MaxPool Resize Resize"},
    {"input %x : f32[3,5]\n%y = Resize (%x) {axis=1, size=8, mode=2, cubic_a=-0.5, coordinates=3, exclude_outside=1}\n"
     "output %y\n",
     "Resize", 18},
    {"input %x : f32[3,N]\n%y = Resize (%x) {axis=1, scale_up=3, mode=1}\noutput %y\n", "Resize", 17, false},
    // Recurrent layers take in the product before them.
    {"input %x : f32[5,2,3]\ninput %h : f32[1,2,4]\n" + random_f32("w", {16, 3}, 1) + random_f32("b", {16}, 2) +
         random_f32("r", {4, 16}, 3) + random_f32("k", {16}, 4) +
         "constant %d : s64[2] = [2, 4]\nconstant %t : s64[4] = [5, 1, 2, 4]\n%g = FullyConnected (%x, %w, %b)\n"
         "%f = Reshape (%h, "
         "%d)\n%e = Reshape (%h, %d)\n"
         "%a, %p, %c = Lstm (%g, %r, %k, %f, _, %e, _) {functions=[0,4,1], g_a=0.3, clip=2, coupled_gates=1}\n%y = Reshape (%a, "
         "%t)\noutput %y\n",
     "LSTM"},
    {"input %x : f32[5,2,3]\n" + random_f32("w", {12, 3}, 1) + random_f32("r", {4, 12}, 3) + random_f32("k", {12}, 4) +
         "constant %t : s64[3] = [1, 2, 4]\n%g = FullyConnected (%x, %w, %k)\n%a, %p = Gru (%g, %r, %k, _, _) {reverse=1, "
         "reset_after=1}\n%y = Reshape (%p, %t)\noutput %y\n",
     "GRU"},
    {"input %x : f32[5,2,3]\n" + random_f32("w", {4, 3}, 1) + random_f32("r", {4, 4}, 3) +
         "%g = FullyConnected (%x, %w)\n%a, %p = Rnn (%g, %r) {functions=[7,1,1], f_a=0.5, f_b=0.25}\noutput %a\n",
     "RNN Squeeze", 17, false},
    {"input %q : f32[1,3,8]\ninput %k : f32[1,3,4]\ninput %b : f32[1,3,1]\n%y, %s = LinearAttention (%q, %k, %k, _, _, %b) "
     "{q_heads=2, kv_heads=1, scale=0.5}\noutput %y\n",
     "LinearAttention", 27},
    {"input %x : f32[2,6]\nconstant %w : s8[6,3] = splat 3\n%q, %s, %z = DynamicQuantizeLinear (%x)\n%y = MatMulInteger (%q, %w, "
     "%z)\noutput %y\n",
     "DynamicQuantizeLinear MatMulInteger"},
    {"input %x : u8[1,4,4,2]\nconstant %w : s8[3,2,2,2] = splat 3\n%y = ConvInteger (%x, %w) {stride=[2,1]}\noutput %y\n",
     "Transpose ConvInteger Transpose"},
    {"input %x : f32[2,3,8]\nconstant %s : f32[8] = [1, 2, 0.5, 0.25, 0.125, 0.1, 0.05, 0.01]\n%y = FakeQuant (%x, %s) {axis=2, zero_point=-3}\noutput %y\n",
     "QuantizeLinear DequantizeLinear", 17, false},
    {"input %x : f32[2,8]\ninput %u : f32[]\nconstant %s : f32[] = [0.1]\n%t = StepSize (%u, %s) {lo=0.5, hi=2}\n%y = FakeQuant (%x, %t) "
     "{qmin=-7, qmax=7}\noutput %y\n",
     "Clip Mul QuantizeLinear Clip DequantizeLinear", 17, false},
};

// All outputs, as floats or bit for bit.
bool same_numbers(const Graph& a, const Graph& b) {
  const auto x = run_graph(a), y = run_graph(b);
  if (a.value(a.outputs()[0]).type.dtype != DType::kF32) return x == y;
  return relative_difference(x, y) < 1e-5;
}

TEST_CASE("every op that ONNX has is written, and computes the same when it is read again") {
  for (const Case& c : kCases) {
    CAPTURE(c.body);
    const Graph graph = parsed(c.body);
    const OnnxFile file = exported(graph);
    CHECK(file_ops(file) == c.ops);
    CHECK(file.opset == c.opset);
    CHECK(proto_of(file).opsets[0].version == c.opset);
    const Graph again = imported(file);
    // Sizes that depend on data are for sessions that run in segments.
    if (c.body.find("Extents") == std::string::npos) CHECK(same_numbers(graph, again));
    if (c.same) CHECK(canonical_text(again) == canonical_text(graph));
    else CHECK(canonical_text(again) != canonical_text(graph));
  }
}

TEST_CASE("every op is among these, or is refused with a reason") {
  std::set<std::string> written;
  std::string refused, missing;
  for (const Case& c : kCases)
    for (const Graph graph = parsed(c.body); const NodeId n : graph.order()) written.insert(op_name(graph.node(n).op));
#define LATHE_OP(name, number, attrs)                                                          \
  if (const onnx::OpExport* e = onnx::find_op_export(Op::k##name); e != nullptr && !e->run)    \
    refused += std::string(e->reason).empty() ? #name " without a reason, " : #name ", ";      \
  else if (e == nullptr || !written.contains(#name))                                           \
    missing += #name ", ";
#include "runtime/ops.def"
#undef LATHE_OP
  CHECK(missing == "");
  CHECK(refused ==
        "Assign, DynamicFullyConnected, MaskedSoftmax, Pack, Conv2dWeightGrad, MaxPool2dGrad, AvgPool2dGrad, ClampGrad, "
        "BatchNormTrain, BatchNormGrad, FakeQuantGrad, ");
}

TEST_CASE("weights are raw data with their own names, scales lie along an explicit axis") {
  const Graph graph = parsed(kQuantizedConv);
  const OnnxFile file = exported(graph);
  const onnx::ModelProto proto = proto_of(file);
  CHECK(proto.graph->inputs[0].dims[0].param == "N");
  bool weight = false, axis = false;
  for (const auto& t : proto.graph->initializers) {
    CHECK(t.raw_data);
    if (t.name != "w") continue;
    weight = true;
    CHECK(t.dims == std::vector<int64_t>{2, 4, 3, 3});
    CHECK(t.data_type == static_cast<int32_t>(onnx::ElemType::kInt8));
  }
  for (const auto& n : proto.graph->nodes)
    for (const auto& a : n.attributes)
      if (n.op_type == "DequantizeLinear" && n.inputs[0] == "w") axis = a.name == "axis" && a.i == 0;
  CHECK(weight);
  CHECK(axis);
}

TEST_CASE("what ONNX cannot express is an error that lists all of it") {
  const Graph graph = parsed(
      "input %x : f32[N,8]\nconstant %w : s8[8,8] quant(scale=1, zero_point=0) = splat 1\n"
      "%a = DynamicFullyConnected \"first\" (%x, %w)\n%s = Sigmoid (%a)\n"
      "%y = DynamicFullyConnected \"second\" (%s, %w)\noutput %y\n");
  const auto file = export_onnx(graph);
  REQUIRE(!file);
  CHECK(file.error().code == Code::kUnsupported);
  CHECK(file.error().message ==
        "2 nodes cannot be exported:\n"
        "  node 'first' (DynamicFullyConnected): ONNX has no operator that quantizes rows on symmetric grids of their own\n"
        "  node 'second' (DynamicFullyConnected): ONNX has no operator that quantizes rows on symmetric grids of their own");
}

TEST_CASE("integers of 16 bits that stand for real numbers are refused, whatever reads or makes them") {
  const Graph graph = parsed(
      "input %x : s16[1,8] quant(scale=1, zero_point=0, qmin=-32768, qmax=32767)\n"
      "constant %w : s8[8,8] quant(scale=1, zero_point=0) = splat 1\n"
      "%y : s16[1,8] quant(scale=1, zero_point=0, qmin=-32768, qmax=32767) = FullyConnected \"fc\" (%x, %w)\n"
      "%z = Dequantize \"border\" (%y)\noutput %z\n");
  const auto file = export_onnx(graph);
  REQUIRE(!file);
  CHECK(file.error().message ==
        "2 nodes cannot be exported:\n"
        "  node 'fc' (FullyConnected): a quantized value of type s16\n"
        "  node 'border' (Dequantize): a quantized value of type s16");
}

TEST_CASE("import, export, import gives the same graph, for every model that can be imported") {
  const std::string folder = data_path("models");
  if (folder.empty()) {
    MESSAGE("skipped: no models");
    return;
  }
  size_t count = 0;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".onnx") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    const auto first = import_onnx(path);
    if (!first) continue;
    CAPTURE(path.string());
    const auto file = export_onnx(*first);
    REQUIRE_MESSAGE(file, file.error().message);
    CHECK(canonical_text(imported(*file)) == canonical_text(*first));
    ++count;
  }
  CHECK(count >= 20);
}

}  // namespace
}  // namespace lathe::test
