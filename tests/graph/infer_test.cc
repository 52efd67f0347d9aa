// One table drives shape inference of every op: operands, attributes, and the type (with contents) or the error that must come out.
#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "graph/ir.h"
#include "graph/op_def.h"

namespace lathe {
namespace {

struct InferCase {
  const char* op;
  std::vector<const char*> operands;  // types; "type = elements" is a constant, "_" is missing
  const char* attrs;
  const char* expected;               // type (and " // [contents]"), or "error: " and a part of the message
  const char* quant = "";             // asked for the result
};

const char* const kQ = "quant(scale=0.5, zero_point=3)";
const char* const kSoftmaxQ = "quant(scale=0.00390625, zero_point=-128)";

const InferCase kCases[] = {
    // Convolution: NHWC, OHWI.
    {"Conv2d", {"f32[N,32,32,3]", "f32[16,3,3,3]"}, "{pad=[1,1,1,1]}", "f32[N,32,32,16]"},
    {"Conv2d", {"f32[N,H,W,3]", "f32[16,3,3,3]", "f32[16]"}, "{stride=[2,2], pad=[1,1,1,1]}", "f32[N,floordiv(H+1,2),floordiv(W+1,2),16]"},
    {"Conv2d", {"f32[N,H,W,3]", "f32[16,3,3,3]"}, "{stride=[2,2], pad=[0,0,1,1]}", "f32[N,floordiv(H,2),floordiv(W,2),16]"},
    {"Conv2d", {"f32[1,7,7,8]", "f32[8,3,3,1]"}, "{groups=8, dilation=[2,2]}", "f32[1,3,3,8]"},
    {"Conv2d", {"f32[1,7,9,4]", "f32[4,3,1,4]", "_", "f32[1,5,9,4]"}, "", "f32[1,5,9,4]"},
    {"Conv2d", {"f32[N,5,5,C]", "f32[16,3,3,3]"}, "", "f32[N,3,3,16]"},
    {"Conv2d", {"s8[N,5,5,3] quant(scale=0.5, zero_point=3)", "s8[2,3,3,3] quant(axis=0, scales=[1,2])", "s32[2]"}, "", "s8[N,3,3,2]", kQ},
    {"Conv2d", {"s8[N,5,5,3] quant(scale=0.5, zero_point=3)", "s8[2,3,3,3] quant(scale=1, zero_point=0)"}, "", "error: no quantization parameters"},
    {"Conv2d", {"s8[N,5,5,3] quant(scale=0.5, zero_point=3)", "f32[2,3,3,3]"}, "", "error: weight is f32, must be quantized s8", kQ},
    {"Conv2d", {"s8[N,5,5,3]", "s8[2,3,3,3]"}, "", "error: without quantization parameters"},
    {"Conv2d", {"f32[N,5,5,3]", "f32[16,3,3,4]"}, "", "error: weight has 4 input channels, input has 3"},
    {"Conv2d", {"f32[N,5,5,3]", "f32[16,3,3,3]", "f32[15]"}, "", "error: bias dimension 0 is 15, must be 16"},
    {"Conv2d", {"f32[N,5,5,3]", "f32[16,3,3,3]", "s32[16]"}, "", "error: bias is s32, must be f32"},
    {"Conv2d", {"f32[N,5,5,3]", "f32[16,3,3,3]", "_", "f32[N,5,5,16]"}, "", "error: residual dimension 1 is 5, must be 3"},
    {"Conv2d", {"f32[N,5,3]", "f32[16,3,3,3]"}, "", "error: input has rank 3, must have 4"},
    {"Conv2d", {"f32[N,5,5,3]", "f32[16,K,3,3]"}, "", "error: kernel size K is not constant"},
    {"Conv2d", {"f32[N,2,5,3]", "f32[16,3,3,3]"}, "", "error: height: window of 3 is larger than the padded input of 2"},
    {"Conv2d", {"f32[N,5,5,3]", "f32[16,3,3,3]"}, "{stride=[0,1]}", "error: stride 0"},
    {"Conv2d", {"f32[N,5,5,3]", "f32[16,3,3,3]"}, "{pad=[-1,0,0,0]}", "error: pad is negative"},
    {"Conv2d", {"f32[N,5,5,4]", "f32[3,3,3,2]"}, "{groups=2}", "error: 3 output channels do not divide into 2 groups"},
    {"Conv2d", {"f32[N,5,5,4]", "f32[3,3,3,2]"}, "{groups=0}", "error: groups is 0"},
    {"Conv2d", {"f32[N,5,5,3]"}, "", "error: 1 operands, must be 2 to 4"},
    {"Conv2d", {"f32[N,5,5,3]", "_"}, "", "error: operand 1 is missing"},
    {"Conv2d", {"f32[N,5,5,3]", "f32[1,2147483647,3,3]"}, "{dilation=[2147483647,1]}", "error: is larger than the padded input"},
    {"Conv2d", {"f32[N,5,5,3]", "f32[1,3,3,3]"}, "{lo=nan}", "error: lo is not a number"},
    {"ConvTranspose2d", {"f32[N,5,7,3]", "f32[16,3,3,3]"}, "", "f32[N,7,9,16]"},
    {"ConvTranspose2d", {"f32[N,H,W,3]", "f32[16,4,3,3]", "f32[16]"}, "{stride=[2,3], pad=[1,1,1,0]}", "f32[N,H*2,W*3-1,16]"},
    {"ConvTranspose2d", {"f32[1,3,4,8]", "f32[6,3,2,4]"}, "{groups=2, stride=[2,1], dilation=[2,3], output_pad=[1,2]}", "f32[1,10,9,6]"},
    {"ConvTranspose2d", {"f32[1,2,2,4]", "f32[4,2,2,4]", "_", "f32[1,4,4,4]"}, "{stride=[2,2]}", "f32[1,4,4,4]"},
    {"ConvTranspose2d", {"s8[N,5,5,3] quant(scale=0.5, zero_point=3)", "s8[2,2,2,3] quant(axis=0, scales=[1,2])", "s32[2]"}, "{stride=[2,2]}", "s8[N,10,10,2]", kQ},
    {"ConvTranspose2d", {"f32[N,5,5,3]", "f32[16,3,3,4]"}, "", "error: weight has 4 input channels, input has 3"},
    {"ConvTranspose2d", {"f32[N,5,5,4]", "f32[3,3,3,2]"}, "{groups=2}", "error: 3 output channels do not divide into 2 groups"},
    {"ConvTranspose2d", {"f32[N,5,5,3]", "f32[16,K,3,3]"}, "", "error: kernel size K is not constant"},
    {"ConvTranspose2d", {"f32[N,5,5,3]", "f32[16,3,3,3]"}, "{stride=[2,2], output_pad=[2,0]}", "error: height: output_pad is 2, must be below stride 2 or dilation 1"},
    {"ConvTranspose2d", {"f32[N,2,5,3]", "f32[16,3,3,3]"}, "{pad=[2,0,2,0]}", "error: height: pads of 2 and 2 leave nothing of the result"},
    {"ConvTranspose2d", {"f32[N,5,5,3]", "f32[16,3,3,3]"}, "{pad=[0,-1,0,0]}", "error: width: pad is negative"},
    {"ConvTranspose2d", {"f32[N,5,5,3]", "f32[16,3,3,3]"}, "{stride=[1,0]}", "error: stride 0"},
    {"ConvTranspose2d", {"f32[N,5,3]", "f32[16,3,3,3]"}, "", "error: input has rank 3, must have 4"},
    {"FullyConnected", {"f32[N,784]", "f32[10,784]", "f32[10]"}, "", "f32[N,10]"},
    {"FullyConnected", {"f32[N,T,64]", "f32[32,64]", "_", "f32[N,T,32]"}, "{lo=0}", "f32[N,T,32]"},
    {"FullyConnected", {"f32[N,783]", "f32[10,784]"}, "", "error: weight has 784 input features, input has 783"},
    {"FullyConnected", {"f32[]", "f32[10,784]"}, "", "error: input has rank 0"},
    {"FullyConnected", {"f32[N,784]", "f32[10,784]", "f32[1,10]"}, "", "error: bias has rank 2, must have 1"},
    {"FullyConnected", {"s16[N,4] quant(scale=1, zero_point=0, qmin=-32768, qmax=32767)", "s8[2,4] quant(scale=1, zero_point=0)", "s64[2]"}, "",
     "s16[N,2]", "quant(scale=1, zero_point=0, qmin=-32768, qmax=32767)"},
    {"FullyConnected", {"s16[N,4] quant(scale=1, zero_point=0, qmin=-32768, qmax=32767)", "s8[2,4] quant(scale=1, zero_point=0)", "s32[2]"}, "",
     "error: bias is s32, must be s64", "quant(scale=1, zero_point=0, qmin=-32768, qmax=32767)"},
    {"DynamicFullyConnected", {"f32[N,T,64]", "s8[32,64] quant(scale=1, zero_point=0)", "f32[32]", "f32[N,T,32]"}, "{per_token=0}", "f32[N,T,32]"},
    {"DynamicFullyConnected", {"f32[N,64]", "f32[32,64]"}, "", "error: weight is f32, must be quantized s8"},
    {"DynamicFullyConnected", {"s8[N,64] quant(scale=0.5, zero_point=3)", "s8[32,64] quant(scale=1, zero_point=0)"}, "", "error: the op takes float only"},
    {"DynamicFullyConnected", {"f32[N,64]", "s8[32,63] quant(scale=1, zero_point=0)"}, "", "error: weight has 63 input features, input has 64"},
    {"DynamicFullyConnected", {"f32[N,64]", "s8[32,64] quant(scale=1, zero_point=0)", "s32[32]"}, "", "error: bias is s32, must be f32"},
    {"DynamicFullyConnected", {"f32[N,64]", "s8[32,64] quant(scale=1, zero_point=0)"}, "{per_token=2}", "error: per_token is 2"},
    {"MatMul", {"f32[N,S,64]", "f32[64,T]"}, "", "f32[N,S,T]"},
    {"MatMul", {"f32[N,1,S,64]", "f32[12,64,T]"}, "{scale=0.125, lo=0}", "f32[N,12,S,T]"},
    {"MatMul", {"f32[N,S,12,64]", "f32[N,T,12,64]"}, "{a_perm=[0,2,1,3], b_perm=[0,2,3,1]}", "f32[N,12,S,T]"},
    {"MatMul", {"f32[N,12,S,T]", "f32[N,12,T,64]"}, "{y_perm=[0,2,1,3]}", "f32[N,S,12,64]"},
    {"MatMul", {"s8[N,S,64] quant(scale=0.5, zero_point=3)", "s8[N,64,S] quant(scale=1, zero_point=0)"}, "", "s8[N,S,S]", kQ},
    {"MatMul", {"f32[N,S,64]", "f32[N,32,64]"}, "", "error: second input has 32 rows, first has 64 columns"},
    {"MatMul", {"f32[64]", "f32[64,32]"}, "", "error: an input has rank 1, must have at least 2"},
    {"MatMul", {"f32[3,4,64]", "f32[2,64,32]"}, "", "error: dimensions 3 and 2 do not broadcast"},
    {"MatMul", {"f32[3,4,64]", "s8[64,32] quant(scale=1, zero_point=0)"}, "", "error: second input is quantized s8, must be f32"},
    {"MatMul", {"f32[3,4,64]", "f32[64,32]"}, "{a_perm=[0,1]}", "error: a_perm has 2 entries, rank is 3"},
    {"MatMul", {"f32[3,4,64]", "f32[64,32]"}, "{b_perm=[1,1]}", "error: b_perm is not a permutation"},
    {"MatMul", {"f32[3,4,64]", "f32[64,32]"}, "{y_perm=[0,2,1]}", "error: y_perm moves the last axis"},
    {"MatMul", {"f32[3,4,64]", "f32[64,32]"}, "{scale=-1}", "error: scale is -1"},
    {"MatMul", {"f32[3,4,64]", "f32[64,32]"}, "{lo=1, hi=0}", "error: clamp from 1"},
    {"BatchNorm", {"f32[N,16,H,W]", "f32[16]", "f32[16]", "f32[16]", "f32[16]"}, "", "f32[N,16,H,W]"},
    {"BatchNorm", {"f32[N,H,16]", "f32[16]", "f32[16]", "f32[16]", "f32[16]"}, "{axis=2}", "f32[N,H,16]"},
    {"BatchNorm", {"f32[N,16,H,W]", "f32[16]", "f32[16]", "f32[16]", "f32[8]"}, "", "error: variance dimension 0 is 8, must be 16"},
    {"BatchNorm", {"f32[N,16]", "f32[16]", "f32[16]", "f32[16]", "f32[16]"}, "{axis=2}", "error: axis is 2, input has rank 2"},
    {"BatchNorm", {"f32[N,16]", "f32[16]", "f32[16]", "f32[16]", "f32[16]"}, "{epsilon=-1}", "error: epsilon is -1"},
    // Pooling. ceil_mode: 6 rows, window 3, stride 2 need 3 windows; a fourth would start in the padding.
    {"MaxPool2d", {"f32[N,32,33,8]"}, "{kernel=[2,2], stride=[2,2]}", "f32[N,16,16,8]"},
    {"MaxPool2d", {"f32[N,6,H,8]"}, "{kernel=[3,3], stride=[2,2], ceil_mode=1}", "f32[N,3,min(floordiv(H,2),floordiv(H+1,2)),8]"},
    {"MaxPool2d", {"f32[N,5,5,8]"}, "{kernel=[2,2], stride=[3,3], pad=[1,1,1,1], ceil_mode=1}", "f32[N,2,2,8]"},
    {"MaxPool2d", {"f32[N,4,4,8]"}, "{kernel=[1,1], stride=[4,4], ceil_mode=1}", "f32[N,1,1,8]"},
    {"MaxPool2d", {"s8[N,4,4,8] quant(scale=0.5, zero_point=3)"}, "{kernel=[2,2]}", "s8[N,3,3,8]"},
    {"MaxPool2d", {"s8[N,4,4,8] quant(scale=0.5, zero_point=4)"}, "{kernel=[2,2]}", "error: fixed by the op and differ", kQ},
    {"MaxPool2d", {"f32[N,4,4,8]"}, "{kernel=[2,2], pad=[2,0,0,0]}", "error: pads 2 and 0 must be smaller than the window of 2"},
    {"MaxPool2d", {"f32[N,4,8]"}, "{kernel=[2,2]}", "error: rank 3"},
    {"AvgPool2d", {"f32[N,8,8,8]"}, "{kernel=[8,8]}", "f32[N,1,1,8]"},
    {"AvgPool2d", {"f32[N,8,8,8]"}, "{kernel=[9,9]}", "error: height: window of 9 is larger than the padded input of 8"},
    {"AvgPool2d", {"f32[N,8,8,8]"}, "{kernel=[0,1]}", "error: pads 0 and 0 must be smaller than the window of 0"},
    {"AvgPool2d", {"s64[N,8,8,8]"}, "{kernel=[2,2]}", "error: input is s64 without quantization parameters, must be real"},
    {"Mean", {"f32[N,H,W,8]"}, "{axes=[1,2]}", "f32[N,1,1,8]"},
    {"Mean", {"f32[N,H,W,8]"}, "{axes=[1,2], keep_dims=0}", "f32[N,8]"},
    {"Mean", {"f32[N,H]"}, "{axes=[2]}", "error: axis is 2, input has rank 2"},
    {"Mean", {"f32[N,H]"}, "{axes=[1,0]}", "error: axes are not ascending"},
    // Elementwise. Broadcasting of symbols: equal, 1, or a check at bind.
    {"Add", {"f32[N,8]", "f32[N,8]"}, "", "f32[N,8]"},
    {"Add", {"f32[8]", "f32[N,H,1]"}, "", "f32[N,H,8]"},
    {"Add", {"f32[N,8]", "f32[4,8]"}, "", "f32[4,8]"},
    {"Add", {"f32[N]", "f32[M]"}, "", "f32[max(M,N)]"},
    {"Add", {"f32[N-3]", "f32[M]"}, "", "f32[max(M,N-3)]"},
    {"Add", {"f32[N+4]", "f32[3]"}, "", "error: dimensions N+4 and 3 do not broadcast"},
    {"Add", {"f32[3]", "f32[4]"}, "", "error: dimensions 3 and 4 do not broadcast"},
    {"Add", {"f32[3]", "s64[3]"}, "", "error: second input is s64, must be f32"},
    {"Add", {"f32[3]", "s8[3] quant(scale=1, zero_point=0)"}, "", "error: second input is quantized s8, must be f32"},
    {"Add", {"s8[3] quant(scale=0.5, zero_point=0)", "s8[3] quant(scale=1, zero_point=0)"}, "", "s8[3]", kQ},
    {"Add", {"bool[3]", "bool[3]"}, "", "error: input is bool"},
    {"Add", {"u8[3]", "u8[3]"}, "", "u8[3]"},
    {"Add", {"s64[2] = [3, 4]", "s64[] = [-1]"}, "", "s64[2] // [2, 3]"},
    {"Sub", {"s64[2] = [3, 4]", "s64[2] = [1, 5]"}, "", "s64[2] // [2, -1]"},
    {"Mul", {"s32[2] = [3, 4]", "s32[1] = [2]"}, "", "s32[2] // [6, 8]"},
    {"Div", {"s64[2] = [-7, 7]", "s64[] = [2]"}, "", "s64[2] // [-3, 3]"},
    {"Div", {"s64[1] = [7]", "s64[1] = [0]"}, "", "s64[1]"},
    {"Mul", {"s64[1] = [9223372036854775807]", "s64[1] = [2]"}, "", "s64[1]"},
    {"Sub", {"f32[N,1,H]", "f32[8,H]"}, "", "f32[N,8,H]"},
    {"Mul", {"f32[N,H,W,8]", "f32[N,1,1,8]"}, "{lo=0, hi=6}", "f32[N,H,W,8]"},
    {"Div", {"f32[N,8]", "f32[]"}, "", "f32[N,8]"},
    {"Div", {"s8[3] quant(scale=0.5, zero_point=0)", "s8[3] quant(scale=1, zero_point=0)"}, "", "error: the op takes float only", kQ},
    {"Clamp", {"f32[N,8]"}, "{lo=0, hi=6}", "f32[N,8]"},
    {"Clamp", {"f32[N,8]"}, "{lo=1, hi=0}", "error: clamp from 1"},
    {"Clamp", {"s64[8]"}, "", "error: must be real"},
    {"Sigmoid", {"f32[N]"}, "", "f32[N]"},
    {"Sigmoid", {"s8[N] quant(scale=0.5, zero_point=3)"}, "", "s8[N]"},
    {"Sigmoid", {"s8[N] quant(scale=0.5, zero_point=3)"}, "", "s8[N]", kQ},
    {"Softmax", {"s8[N,10] quant(scale=0.5, zero_point=3)"}, "{axis=1}", "error: fixed by the op", kQ},
    {"Tanh", {"s8[N] quant(scale=0.5, zero_point=3)"}, "", "s8[N]", "quant(scale=0.0078125, zero_point=0)"},
    {"Exp", {"f32[]"}, "", "f32[]"},
    {"Sqrt", {"f32[N]"}, "", "f32[N]"},
    {"LeakyRelu", {"f32[N]"}, "{alpha=0.1}", "f32[N]"},
    {"LeakyRelu", {"s8[N] quant(scale=0.5, zero_point=3)"}, "", "error: no quantization parameters"},
    {"HardSwish", {"s8[N] quant(scale=0.5, zero_point=3)"}, "", "s8[N]", kQ},
    {"HardSwish", {"f32[N]"}, "", "error: result is f32, it takes no quantization parameters", kQ},
    {"Gelu", {"f32[N]"}, "", "f32[N]"},
    {"Gelu", {"s8[N] quant(scale=0.5, zero_point=3)"}, "{approximate=1}", "s8[N]", kQ},
    {"Gelu", {"f32[N]"}, "{approximate=2}", "error: approximate is 2, must be 0 or 1"},
    {"Silu", {"f32[N,8]"}, "", "f32[N,8]"},
    {"Erf", {"s8[N] quant(scale=0.5, zero_point=3)"}, "", "s8[N]", "quant(scale=0.0078125, zero_point=0)"},
    // Two plain operands of one type.
    {"Max", {"f32[N,8]", "f32[4,8]"}, "", "f32[4,8]"},
    {"Max", {"s64[2] = [3, 4]", "s64[] = [4]"}, "", "s64[2] // [4, 4]"},
    {"Max", {"f32[3]", "s64[3]"}, "", "error: second input is s64, must be f32"},
    {"Min", {"u16[3]", "u16[4]"}, "", "error: dimensions 3 and 4 do not broadcast"},
    {"Min", {"s32[2] = [3, 4]", "s32[2] = [4, 1]"}, "", "s32[2] // [3, 1]"},
    {"Pow", {"f32[N]", "f32[]"}, "", "f32[N]"},
    {"Pow", {"bool[3]", "bool[3]"}, "", "error: input is bool, which Pow does not take"},
    {"Mod", {"s8[3]", "s8[3]"}, "{truncated=1}", "s8[3]"},
    {"Mod", {"s8[3]", "s8[3]"}, "{truncated=2}", "error: truncated is 2, must be 0 or 1"},
    {"Equal", {"f32[N,1]", "f32[8]"}, "", "bool[N,8]"},
    {"Equal", {"s64[3] = [3, -1, 5]", "s64[] = [-1]"}, "", "bool[3] // [0, 1, 0]"},
    {"Equal", {"s8[3] quant(scale=1, zero_point=0)", "s8[3] quant(scale=1, zero_point=0)"}, "", "error: the op takes float only"},
    {"Less", {"s64[3] = [3, -1, 5]", "s64[3] = [3, 0, 4]"}, "", "bool[3] // [0, 1, 0]"},
    {"Less", {"bool[3]", "bool[3]"}, "", "bool[3]"},
    {"LessEqual", {"s64[3] = [3, -1, 5]", "s64[3] = [3, 0, 4]"}, "", "bool[3] // [1, 1, 0]"},
    {"LessEqual", {"bool[3]", "bool[3]"}, "", "error: input is bool, which LessEqual does not take"},
    {"BitAnd", {"bool[2] = [0, 1]", "bool[2] = [1, 1]"}, "", "bool[2] // [0, 1]"},
    {"BitOr", {"bool[2] = [0, 1]", "bool[] = [0]"}, "", "bool[2] // [0, 1]"},
    {"BitXor", {"u64[N]", "u64[]"}, "", "u64[N]"},
    {"BitXor", {"f32[N]", "f32[]"}, "", "error: input is f32, which BitXor does not take"},
    {"BitShift", {"u8[3]", "u8[3]"}, "{left=0}", "u8[3]"},
    {"BitShift", {"u8[3]", "u8[3]"}, "{left=-1}", "error: left is -1, must be 0 or 1"},
    {"Where", {"bool[N,1]", "f32[8]", "f32[]"}, "", "f32[N,8]"},
    {"Where", {"bool[2] = [0, 1]", "s64[] = [7]", "s64[2] = [5, 6]"}, "", "s64[2] // [5, 7]"},
    {"Where", {"bool[3]", "s8[3] quant(scale=1, zero_point=0)", "s8[] quant(scale=2, zero_point=0)"}, "", "s8[3]", kQ},
    {"Where", {"f32[3]", "f32[3]", "f32[3]"}, "", "error: condition is f32, must be bool"},
    {"Where", {"bool[3]", "f32[3]", "s32[3]"}, "", "error: third input is s32, must be f32"},
    // More functions of one input.
    {"Abs", {"f32[N]"}, "", "f32[N]"},
    {"Abs", {"s32[N]"}, "", "error: must be real"},
    {"Sign", {"f32[N]"}, "", "f32[N]"},
    {"Floor", {"f32[N]"}, "", "f32[N]"},
    {"Ceil", {"f32[N]"}, "", "f32[N]"},
    {"Round", {"f32[N]"}, "", "f32[N]"},
    {"Log", {"s8[N] quant(scale=0.5, zero_point=3)"}, "", "s8[N]", kQ},
    {"Sin", {"f32[N]"}, "", "f32[N]"},
    {"Cos", {"f32[N]"}, "", "f32[N]"},
    {"Tan", {"f32[N]"}, "", "f32[N]"},
    {"Asin", {"f32[N]"}, "", "f32[N]"},
    {"Acos", {"f32[N]"}, "", "f32[N]"},
    {"Atan", {"f32[N]"}, "", "f32[N]"},
    {"Sinh", {"f32[N]"}, "", "f32[N]"},
    {"Cosh", {"f32[N]"}, "", "f32[N]"},
    {"Asinh", {"f32[N]"}, "", "f32[N]"},
    {"Acosh", {"f32[N]"}, "", "f32[N]"},
    {"Atanh", {"f32[N]"}, "", "f32[N]"},
    {"Elu", {"f32[N]"}, "{alpha=2, beta=0.5, gamma=1}", "f32[N]"},
    {"Softplus", {"f32[N]"}, "", "f32[N]"},
    {"Mish", {"f32[N]"}, "", "f32[N]"},
    {"HardSigmoid", {"s8[N] quant(scale=0.5, zero_point=3)"}, "{alpha=0.3}", "s8[N]", kSoftmaxQ},
    // Reductions, and searches along an axis.
    {"ReduceSum", {"s64[N,H,8]"}, "{axes=[0,2]}", "s64[1,H,1]"},
    {"ReduceSum", {"bool[N,H]"}, "{axes=[1]}", "error: input is bool, which ReduceSum does not take"},
    {"ReduceProd", {"f32[N,H]"}, "{axes=[1], keep_dims=0}", "f32[N]"},
    {"ReduceProd", {"f32[N,H]"}, "{axes=[2]}", "error: axis is 2, input has rank 2"},
    {"ReduceMax", {"s8[N,H] quant(scale=0.5, zero_point=3)"}, "{axes=[1]}", "s8[N,1]"},
    {"ReduceMax", {"s8[N,H] quant(scale=0.5, zero_point=4)"}, "{axes=[1]}", "error: fixed by the op and differ", kQ},
    {"ReduceMin", {"bool[N,H]"}, "{axes=[1]}", "bool[N,1]"},
    {"ArgMax", {"f32[N,8]"}, "{axis=1}", "s64[N,1]"},
    {"ArgMax", {"s8[N,8] quant(scale=0.5, zero_point=3)"}, "{axis=1, keep_dims=0}", "s64[N]"},
    {"ArgMax", {"f32[N,0]"}, "{axis=1}", "error: axis has no element"},
    {"ArgMin", {"f32[N,8]"}, "{axis=2}", "error: axis is 2, input has rank 2"},
    {"ArgMin", {"u8[N,8]"}, "{axis=0}", "s64[1,8]"},
    {"TopK", {"f32[N,8]"}, "{axis=1, k=3}", "f32[N,3]"},
    {"TopK", {"f32[N,8]"}, "{axis=1, k=9}", "error: k is 9, the axis has 8 elements"},
    {"TopK", {"f32[N,8]"}, "{axis=1, k=-1}", "error: k is -1"},
    {"CumSum", {"s64[N,8]"}, "{axis=1}", "s64[N,8]"},
    {"CumSum", {"s64[N,8]"}, "{axis=-1}", "error: axis is -1"},
    {"CumProd", {"f32[N]"}, "", "f32[N]"},
    {"Trilu", {"bool[N,S,T]"}, "{k=1}", "bool[N,S,T]"},
    {"Trilu", {"bool[N]"}, "", "error: input has rank 1, must have at least 2"},
    {"Det", {"f32[N,3,M]"}, "", "f32[N]"},
    {"Det", {"f32[3,4]"}, "", "error: number of columns is 4, must be 3"},
    {"BitCast", {"f32[N]"}, "{to=8}", "s32[N]"},
    {"BitCast", {"f32[N]"}, "{to=9}", "error: input is f32, which has another size than s64"},
    {"LayerNorm", {"f32[N,T,384]", "f32[384]", "f32[384]"}, "{axis=2}", "f32[N,T,384]"},
    {"LayerNorm", {"f32[N,4,8]", "f32[4,8]"}, "{axis=1, epsilon=0.001}", "f32[N,4,8]"},
    {"LayerNorm", {"s8[N,8] quant(scale=0.5, zero_point=3)", "f32[8]", "f32[8]"}, "{axis=1}", "s8[N,8]", kQ},
    {"LayerNorm", {"s8[N,8] quant(scale=0.5, zero_point=3)", "s8[8]"}, "{axis=1}", "error: scale is s8, must be f32", kQ},
    {"LayerNorm", {"f32[N,4,8]", "f32[8]"}, "{axis=1}", "error: scale has rank 1, must have 2"},
    {"LayerNorm", {"f32[N,8]", "f32[8]", "f32[7]"}, "{axis=1}", "error: bias dimension 0 is 7, must be 8"},
    {"LayerNorm", {"f32[N,8]", "f32[8]"}, "{axis=2}", "error: axis is 2, input has rank 2"},
    {"LayerNorm", {"f32[N,8]", "f32[8]"}, "{epsilon=-1}", "error: epsilon is -1"},
    {"Softmax", {"f32[N,10]"}, "{axis=1}", "f32[N,10]"},
    {"Softmax", {"s8[N,10] quant(scale=0.5, zero_point=3)"}, "{axis=1}", "s8[N,10]", kSoftmaxQ},
    {"Softmax", {"f32[N,10]"}, "{axis=-1}", "error: axis is -1"},
    // Movement.
    {"Reshape", {"f32[N,3,32,32]", "s64[2] = [-1, 3072]"}, "", "f32[N,3072]"},
    {"Reshape", {"f32[N,3,H,W]", "s64[1] = [-1]"}, "", "f32[H*N*W*3]"},
    {"Reshape", {"f32[4,6]", "s32[3] = [2, 3, 4]"}, "", "f32[2,3,4]"},
    {"Reshape", {"f32[N,5]", "s64[2] = [-1, 2]"}, "", "f32[N*2+floordiv(N,2),2]"},
    {"Reshape", {"s8[4,6] quant(scale=0.5, zero_point=3)", "s64[1] = [24]"}, "", "s8[24]"},
    {"Reshape", {"s64[2] = [5, 6]", "s64[2] = [1, 2]"}, "", "s64[1,2] // [5, 6]"},
    {"Reshape", {"f32[0,3]", "s64[2] = [0, 7]"}, "", "f32[0,7]"},
    {"Reshape", {"f32[4,6]", "s64[2] = [5, -1]"}, "", "error: target has 20 elements, input has 24"},
    {"Reshape", {"f32[4,6]", "s64[1] = [23]"}, "", "error: target has 23 elements, input has 24"},
    {"Reshape", {"f32[4,6]", "s64[2] = [-1, -1]"}, "", "error: more than one -1"},
    {"Reshape", {"f32[4,6]", "s64[2] = [-1, 0]"}, "", "error: -1 beside 0"},
    {"Reshape", {"f32[4,6]", "s64[1] = [-24]"}, "", "error: target dimension is -24"},
    {"Reshape", {"f32[4,6]", "s64[2]"}, "", "error: target shape is not known"},
    {"Reshape", {"f32[4,6]", "f32[1] = [24]"}, "", "error: target must be a vector of s32 or s64"},
    {"Reshape", {"f32[2147483647,2147483647,2147483647]", "s64[1] = [-1]"}, "", "error: overflows"},
    {"Reshape", {"f32[2147483647,2]", "s64[1] = [-1]"}, "", "error: result: dimension 4294967294 is out of range"},
    {"Transpose", {"f32[N,H,W,C]"}, "{perm=[0,3,1,2]}", "f32[N,C,H,W]"},
    {"Transpose", {"f32[N,H]"}, "{perm=[0]}", "error: permutation has 1 axes, input has rank 2"},
    {"Transpose", {"f32[N,H]"}, "{perm=[0,0]}", "error: permutation has axis 0 twice"},
    {"Transpose", {"f32[N,H]"}, "{perm=[0,-1]}", "error: axis is -1"},
    {"Concat", {"f32[N,3,H]", "f32[N,C,H]", "f32[N,1,H]"}, "{axis=1}", "f32[N,C+4,H]"},
    {"Concat", {"f32[N,3]", "f32[2,3]"}, "{axis=1}", "f32[2,6]"},
    {"Concat", {"s64[2] = [1, 2]", "s64[1] = [-1]"}, "", "s64[3] // [1, 2, -1]"},
    {"Concat", {"f32[4,3]", "f32[2,3]"}, "{axis=1}", "error: input 1 dimension 0 is 2, must be 4"},
    {"Concat", {"f32[4,3]", "f32[4]"}, "{axis=1}", "error: input 1 has rank 1, must have 2"},
    {"Concat", {"f32[4,3]", "s8[4,3] quant(scale=1, zero_point=0)"}, "", "error: input 1 is quantized s8, must be f32"},
    {"Concat", {}, "", "error: 0 operands"},
    {"Concat", {"f32[4]", "_"}, "", "error: operand 1 is missing"},
    {"Concat", {"s8[4] quant(scale=1, zero_point=0)", "s8[4] quant(scale=2, zero_point=5)"}, "", "s8[8]", kQ},
    {"Slice", {"f32[10]"}, "{axes=[0], begins=[2], ends=[7], steps=[2]}", "f32[3]"},
    {"Slice", {"f32[10]"}, "{axes=[0], begins=[-3], ends=[2147483647], steps=[1]}", "f32[3]"},
    {"Slice", {"f32[10]"}, "{axes=[0], begins=[-1], ends=[-2147483648], steps=[-1]}", "f32[10]"},
    {"Slice", {"f32[10]"}, "{axes=[0], begins=[-1], ends=[-2147483648], steps=[-2147483648]}", "f32[1]"},
    {"Slice", {"f32[10]"}, "{axes=[0], begins=[7], ends=[2], steps=[1]}", "f32[0]"},
    {"Slice", {"f32[0]"}, "{axes=[0], begins=[0], ends=[5], steps=[1]}", "f32[0]"},
    {"Slice", {"f32[10]"}, "{axes=[0], begins=[100], ends=[-100], steps=[-3]}", "f32[4]"},
    {"Slice", {"f32[10]"}, "{axes=[0], begins=[100], ends=[0], steps=[-1]}", "f32[9]"},
    {"Slice", {"s64[3] = [5, 6, 7]"}, "{axes=[0], begins=[100], ends=[-100], steps=[-1]}", "s64[3] // [7, 6, 5]"},
    {"Slice", {"f32[N,8]"}, "{axes=[0], begins=[0], ends=[1], steps=[1]}", "f32[1,8]"},
    {"Slice", {"f32[N,8]"}, "{axes=[0], begins=[0], ends=[2147483647], steps=[1]}", "f32[N,8]"},
    {"Slice", {"f32[N,8]"}, "{axes=[0,1], begins=[0,2], ends=[-1,4], steps=[1,1]}", "f32[N-1,2]"},
    {"Slice", {"f32[N,8]"}, "{axes=[0], begins=[1], ends=[4], steps=[1]}", "f32[min(N,4)-1,8]"},
    {"Slice", {"s64[4] = [5, 6, 7, 8]"}, "{axes=[0], begins=[-1], ends=[0], steps=[-2]}", "s64[2] // [8, 6]"},
    {"Slice", {"f32[10]"}, "{axes=[0], begins=[2], ends=[7], steps=[0]}", "error: step is 0"},
    {"Slice", {"f32[10]"}, "{axes=[0,0], begins=[2,2], ends=[7,7], steps=[1,1]}", "error: axis 0 is sliced twice"},
    {"Slice", {"f32[10]"}, "{axes=[1], begins=[2], ends=[7], steps=[1]}", "error: axis is 1"},
    {"Slice", {"f32[10]"}, "{axes=[0], begins=[2], ends=[7]}", "error: 0 steps"},
    {"Pad", {"f32[N,H,8]"}, "{before=[0,1,0], after=[0,2,0]}", "f32[N,H+3,8]"},
    {"Pad", {"f32[5]"}, "{before=[-2], after=[0], value=-inf}", "f32[3]"},
    {"Pad", {"s8[5] quant(scale=1, zero_point=0)"}, "{before=[1], after=[0]}", "s8[6]"},
    {"Pad", {"f32[5]"}, "{before=[-6], after=[0]}", "error: pads take 1 more than dimension 0 has"},
    {"Pad", {"f32[5]"}, "{before=[1]}", "error: pads have 1 and 0 entries, input has rank 1"},
    // Shapes.
    {"Shape", {"f32[N,3,H]"}, "", "s64[3] // [N, 3, H]"},
    {"Shape", {"f32[]"}, "", "s64[0] // []"},
    {"Gather", {"f32[100,N]", "s64[2,3]"}, "", "f32[2,3,N]"},
    {"Gather", {"f32[N,8]", "s64[]"}, "{axis=1}", "f32[N]"},
    {"Gather", {"s64[3] = [5, 6, 7]", "s64[] = [-1]"}, "", "s64[] // [7]"},
    {"Gather", {"s64[3] = [5, 6, 7]", "s64[2] = [1, 0]"}, "", "s64[2] // [6, 5]"},
    {"Gather", {"f32[3]", "s64[1] = [3]"}, "", "error: index 3 is outside an axis of 3"},
    {"Gather", {"f32[3]", "s64[1] = [-4]"}, "", "error: index -4 is outside an axis of 3"},
    {"Gather", {"f32[3]", "f32[1]"}, "", "error: indices are f32"},
    {"Gather", {"f32[3]", "s64[1]"}, "{axis=1}", "error: axis is 1"},
    {"Cast", {"f32[N]"}, "{to=9}", "s64[N]"},
    {"Cast", {"s64[2] = [5, 6]"}, "{to=8}", "s32[2] // [5, 6]"},
    {"Cast", {"s64[2] = [5, 6]"}, "{to=1}", "f32[2]"},
    {"Cast", {"f32[N]"}, "{to=77}", "error: type number 77 is unknown"},
    {"Cast", {"s8[N] quant(scale=1, zero_point=0)"}, "{to=1}", "error: operand 'v0' is quantized, the op takes float only"},
    // Borders of quantized graphs.
    {"Quantize", {"f32[N,8]"}, "", "s8[N,8]", kQ},
    {"Quantize", {"f32[N,8]"}, "", "s16[N,8]", "quant(scale=1, zero_point=0, qmin=-32768, qmax=32767)"},
    {"Quantize", {"f32[N,8]"}, "", "s32[N,8]", "quant(scale=1, zero_point=0, qmin=-32769, qmax=32767)"},
    {"Quantize", {"f32[N,8]"}, "", "error: no quantization parameters"},
    {"Quantize", {"f32[N,8]"}, "", "error: scale 0 is 0.000000, must be normal", "quant(scale=0, zero_point=0)"},
    {"Quantize", {"f32[N,8]"}, "", "error: scale 0 is 0.000000, must be normal", "quant(scale=1e-40, zero_point=0)"},
    {"Quantize", {"f32[N,8]"}, "", "error: scale 0 is inf", "quant(scale=inf, zero_point=0)"},
    {"Quantize", {"f32[N,8]"}, "", "error: scale 0 is nan", "quant(scale=nan, zero_point=0)"},
    {"Quantize", {"f32[N,8]"}, "", "error: must be normal and above 0", "quant(scale=-1, zero_point=0)"},
    {"Quantize", {"f32[N,8]"}, "", "error: zero point 128 is outside [-128, 127]", "quant(scale=1, zero_point=128)"},
    {"Quantize", {"f32[N,8]"}, "", "s16[N,8]", "quant(scale=1, zero_point=0, qmax=255)"},
    {"Quantize", {"f32[N,2]"}, "", "error: must be per tensor", "quant(axis=1, scales=[1,1])"},
    {"Quantize", {"f32[N,2]"}, "", "error: 2 scales and 2 zero points, must be 1", "quant(scales=[1,1])"},
    {"Quantize", {"s64[N,8]"}, "", "error: input is s64, must be float", kQ},
    {"Dequantize", {"s8[N] quant(scale=1, zero_point=0)"}, "", "f32[N]"},
    {"Dequantize", {"s8[N]"}, "", "error: without quantization parameters"},
    {"Regrid", {"s8[N] quant(scale=1, zero_point=0)"}, "", "s8[N]", kQ},
    {"Regrid", {"f32[N]"}, "", "error: without quantization parameters", kQ},
#include "tests/graph/infer_cases_integer.inc"
#include "tests/graph/infer_cases_move.inc"
#include "tests/graph/infer_cases_seq.inc"
#include "tests/graph/infer_cases_grad.inc"
};

// Text of a graph with one node, whose results are left to inference.
std::string graph_text(const InferCase& c) {
  std::string sources, operands;
  for (size_t i = 0; i < c.operands.size(); ++i) {
    const std::string text = c.operands[i];
    const std::string name = "%v" + std::to_string(i);
    operands += (i ? ", " : "") + (text == "_" ? text : name);
    if (text == "_") continue;
    const bool constant = text.find(" = ") != std::string::npos;
    sources += std::string(constant ? "constant " : "input ") + name + " : " + text + "\n";
  }
  std::string results = "%y " + std::string(c.quant);
  const OpDef* def = find_op(c.op);
  for (int i = 1; def != nullptr && i < def->outputs; ++i) results += ", %y" + std::to_string(i);
  return "graph {\n" + sources + results + " = " + c.op + " (" + operands + ") " + c.attrs + "\noutput %y\n}";
}

std::string infer_text(const InferCase& c) {
  const auto g = parse_graph(graph_text(c));
  if (!g) return "error: " + g.error().message;
  const Value& v = g->value(g->outputs()[0]);
  std::string s = print_type(g->dims(), v.type);
  if (!v.contents) return s;
  s += " // [";
  for (size_t i = 0; i < v.contents->size(); ++i) s += (i ? ", " : "") + g->dims().text((*v.contents)[i]);
  return s + "]";
}

TEST_CASE("every op infers the types and contents of the case table") {
  for (const InferCase& c : kCases) {
    const std::string expected = c.expected;
    const std::string got = infer_text(c);
    CAPTURE(graph_text(c));
    CAPTURE(got);
    if (expected.starts_with("error: ")) {
      CHECK(got.starts_with("error: "));
      CHECK(got.find(expected.substr(7)) != std::string::npos);
    } else {
      CHECK(got == expected);
    }
  }
}

TEST_CASE("the case table has a case that infers and one that fails for every op") {
  std::set<std::string> good, bad;
  for (const InferCase& c : kCases) (std::string(c.expected).starts_with("error: ") ? bad : good).insert(c.op);
  constexpr Op kOps[] = {
#define LATHE_OP(name, number, attrs) Op::k##name,
#include "runtime/ops.def"
#undef LATHE_OP
  };
  for (const Op op : kOps) {
    const OpDef& def = op_def(op);
    const std::string name = op_name(op);
    CHECK_MESSAGE((good.contains(name) || op == Op::kAssign), name, " has no case that infers");
    CHECK_MESSAGE((bad.contains(name) || def.max_inputs == 1 || op == Op::kAssign || def.layout_free), name, " has no case that fails");
  }
}

}  // namespace
}  // namespace lathe
