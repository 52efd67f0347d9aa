// What every operator gives the executor: prepare (once per session and shape) and run (every time).
//
// runtime/exec/<family>.cc defines `prepare_<Op>` and `run_<Op>` for each op of ops.def; a missing one is a link error. prepare
// runs on hosts only (firmware plans are bound offline), so it may use double; it must not depend on the machine except through
// `isa` and `threads`, so that any host can prepare for any target. run must not allocate, fail, or look at shapes: all it needs
// is in its Params struct.
//
// Plans come from files, so prepare trusts nothing but what program_open() checked (operand counts, indices, list counts in
// attributes, plain constants as large as their dims): it must refuse (kCorrupt) ranks, dtypes, layouts, attributes (strides and
// kernels of 0, axes out of range, pads that overflow) and shapes that do not fit together, packed constants that are too short
// and an output shape other than the op's, so that run stays inside its operands whatever the file says. run must accept an
// output at the very address of input 0 if prepare set alias_input0.
//
// Program-level operands (what lowering emits; * = may be missing):
//   Conv2d, FullyConnected, float:  x, w (kGemmF32 or kDwConvF32), bias* (kPadded16), residual*; in half precision
//                                   w is kGemmF16 or kDwConvF16 and the bias stays f32
//   Conv2d, FullyConnected, s8:     x, w (kGemmS8, kGemmSparseS8 or kDwConvS8), bias for storage s8 (s32, kPadded16),
//                                   bias for storage u8 (s32, kPadded16), m[c] (f32, kPadded16), residual*
//   the three on s16:               x, w (s8, kPlain), bias (s64, kPlain), -, m[c] (f32, kPlain)
//   ConvTranspose2d: as Conv2d, always kGemm layouts; s8 biases hold one padded vector per phase (conv_geometry.h)
//   DynamicFullyConnected:          x (f32), w (kGemmS8), start of the sums for storage s8 (s32, kPadded16), the same for u8,
//                                   s_w[c] (f32, kPadded16), bias* (f32, kPadded16), residual* (f32)
//   functions of one input that the op table calls as_table, on s8:  x, table (256 bytes of s8: entry i is the result for
//                                   q = i - 128)
//   Softmax s8: x, table (u16[256], entry d is rne(65535 * exp(-s d)) for d = max - q)
//   LayerNorm: x, scale, bias*; s8: x, g, b (f32: scale and bias over the result's scale; both are there)
//   Pack: what Conv2d, ConvTranspose2d and FullyConnected take as w or bias, float32, in canonical form; its result is the packed
//                                   one, in place of a constant
//   Reshape, Expand, Trim: x (target dims and counts are the output tensor's); Range: start, limit, delta
//   all others: the graph's operands; attributes as in runtime/attrs.h
// A constant with quantization parameters lies as s8 whatever the plan's storage; ops that cannot read it so refuse it
// (checks.h: stored_flip). BatchNorm and Shape do run (float graphs may keep them), though lowering folds them where it can.
#pragma once
#include <stdint.h>

#include "lathe/status.h"
#include "runtime/bound.h"
#include "runtime/program.h"

namespace lathe {

// What prepare sees: the step, all tensors' shapes, and the target.
struct PrepareInput {
  const Program* program;
  const ProgramStep* step;
  const Shape* shapes;  // by tensor index
  kernels::IsaSet isa;
  kernels::Storage storage;
  uint32_t threads;
  // Both by tensor index; null while the planner asks what a step can do, when all tensors are dense.
  const uint32_t* strides = nullptr;  // elements from one pixel (row of the last dim) to the next; 0: dense
  const uint32_t* wholes = nullptr;   // the tensor that this one lies in, kNoTensor if it stands alone

  // Requires: operand i exists.
  const ProgramTensor& tensor(uint32_t i) const { return program->tensor(program->operand(*step, i)); }
  const Shape& shape(uint32_t i) const { return shapes[program->operand(*step, i)]; }
  bool has(uint32_t i) const { return program->input(*step, i) != kNoTensor; }
  uint32_t out(uint32_t i = 0) const { return step->n_in + i; }
  // Elements from one pixel of operand i to the next. Other than the last dim only where Prepared said that it may be.
  uint32_t pixel_stride(uint32_t i) const {
    const uint32_t stride = strides == nullptr ? 0 : strides[program->operand(*step, i)];
    const Shape& s = shape(i);
    return stride != 0 ? stride : s.rank == 0 ? 1 : static_cast<uint32_t>(s.dims[s.rank - 1]);
  }
  bool is_dense(uint32_t i) const { return strides == nullptr || strides[program->operand(*step, i)] == 0; }
  // Whether operand `part` already lies where this step would copy it: at its place in `whole`.
  bool is_placed(uint32_t part, uint32_t whole) const {
    return wholes != nullptr && wholes[program->operand(*step, part)] == program->operand(*step, whole);
  }
  // Quantization parameters of operand i as they lie in memory: shifted by 128 where u8 storage holds what is s8.
  QuantParams quant(uint32_t i) const {
    QuantParams q = tensor(i).quant;
    const int32_t shift = tensor(i).dtype == DType::kS8 ? kernels::storage_shift(storage) : 0;
    q.zero_point += shift; q.qmin += shift; q.qmax += shift;
    return q;
  }
};

inline constexpr uint32_t kMaxParamsBytes = 640;
inline constexpr uint32_t kMaxStepKernels = 4;
inline constexpr uint32_t kMaxSharedInputs = 32;

// A step that only puts inputs together or takes a part of one: the planner may let the parts lie in the whole from the start,
// and the step then has nothing to do with them (PrepareInput::is_placed).
enum class Piecing : uint8_t {
  kNone,
  kJoin,  // output 0 is `rows` rows, each of one row of every input in turn
  kCut,   // output 0 is, of each of `rows` rows of input 0, the elements from `first` on
};
struct Pieces {
  Piecing kind = Piecing::kNone;
  uint32_t mask = 0;  // kJoin: bit i: input i's bytes are taken as they are
  uint32_t rows = 0;
  uint32_t first = 0;  // kCut
};

// What prepare decides.
struct Prepared {
  alignas(8) uint8_t params[kMaxParamsBytes] = {};
  uint32_t params_bytes = 0;
  const kernels::Kernel* kernels[kMaxStepKernels] = {};
  uint32_t kernel_count = 0;
  uint32_t scratch_bytes = 0;      // for all slots together
  uint32_t share_input_mask = 0;   // bit i: output 0 may take the memory of input i (elementwise in place)
  // Bit i: run never reads input i, a constant for the other storage. Firmware images leave it out.
  uint32_t unread_input_mask = 0;
  bool alias_input0 = false;       // output 0 is input 0's bytes unchanged (Reshape): the plan drops the copy where it can
  // Bit i: run reads nothing past the end of input i, so that the caller's array may serve as it is.
  uint32_t exact_input_mask = 0;
  // Bit i: input i may lie with gaps between its pixels; and whether output 0 may. Asked with dense tensors, prepare comes again
  // with the strides that the planner chose.
  uint32_t strided_input_mask = 0;
  bool strided_output = false;
  Pieces pieces;
  bool elided = false;  // all parts are placed: run does nothing

  // A zeroed P in `params`. P: 32-bit members only, at most kMaxParamsBytes.
  template <class P> P& make() {
    static_assert(sizeof(P) <= kMaxParamsBytes && alignof(P) <= 4, "32-bit members only: a plan is made on another machine");
    params_bytes = sizeof(P);
    return *new_in_place<P>();
  }
  // Adds a kernel; returns false if `k` is null (no such kernel).
  bool use(const kernels::Kernel* k) {
    if (k == nullptr || kernel_count == kMaxStepKernels) return false;
    kernels[kernel_count++] = k;
    return true;
  }

 private:
  template <class P> P* new_in_place() {
    P* p = reinterpret_cast<P*>(params);
    *p = P{};
    return p;
  }
};

struct ExecEntry {
  Status (*prepare)(const PrepareInput& in, Prepared* out);
  void (*run)(const RunContext& ctx, const BoundStep& step);
};

#define LATHE_OP(name, number, attrs)                                 \
  Status prepare_##name(const PrepareInput& in, Prepared* out);       \
  void run_##name(const RunContext& ctx, const BoundStep& step);
#include "runtime/ops.def"
#undef LATHE_OP

// The full table (hosts), in the order of ops.def; and an op's position in it, or kNoTensor for an unknown number.
const ExecEntry* full_exec_table();
uint32_t exec_index(uint16_t op);

}  // namespace lathe
