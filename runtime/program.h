// A program: what lowering makes of a graph, and what the PLAN section of a file holds.
//
// Fixed-layout little-endian records of 32-bit fields, read in place from mapped memory or flash. Every offset into WEIGHTS
// counts 64-byte units. Tables carry their record size, so that a later minor version can append fields; a reader uses what it
// knows. program_open() checks the whole structure before anything is dereferenced; after it succeeded, indices are within their
// tables and constants within WEIGHTS. A Program is an immutable view: share it between threads; it must not outlive the bytes.
#pragma once
#include <stdint.h>

#include "lathe/dtype.h"
#include "lathe/quant.h"
#include "lathe/shape.h"
#include "lathe/status.h"
#include "runtime/op.h"

namespace lathe {

inline constexpr uint32_t kNoTensor = 0xffffffffu;
inline constexpr uint32_t kUnitBytes = 64;

enum class TensorKind : uint8_t { kConstant = 0, kInput = 1, kOutput = 2, kVariable = 3, kTemporary = 4 };

// How a constant's bytes lie: a permutation plus zero padding of its canonical row-major form, so it can be inverted.
// kGemmSparseS8 leaves out what is zero, too.
enum class Layout : uint8_t {
  kPlain = 0,
  kGemmS8 = 1,     // kernels/gemm/gemm.h, segments as the step's attributes give them
  kGemmF32 = 2,
  kDwConvS8 = 3,   // kernels/dwconv/dwconv.h
  kDwConvF32 = 4,
  kPadded16 = 5,   // a vector padded with zeros to a multiple of 16 elements
  kGemmF16 = 6,    // as kGemmF32, elements in half precision
  kDwConvF16 = 7,
  kGemmSparseS8 = 8,  // kernels/gemm_sparse/gemm_sparse.h: as kGemmS8 without its blocks of zeros
  kWinogradF32 = 9,   // kernels/winograd/winograd.h; only a Pack makes it
};

// Expressions over symbols that give dims; record i may use records before i only.
enum class DimOp : uint8_t {
  kConst = 0,
  kSymbol = 1,
  kAdd = 2,
  kSub = 3,
  kMul = 4,
  kFloorDiv = 5,
  kCeilDiv = 6,
  kMin = 7,
  kMax = 8,
  kValue = 9
};
struct ProgramDim {
  DimOp op;
  uint8_t reserved[3];
  int32_t a;  // kConst: the value; kSymbol: its number; kValue: tensor; else the left record
  int32_t b;  // kValue: element; else the right record
};

inline constexpr uint32_t kMaxTensors = 65536;

// kTensorHasQuant: scale, zero_point, qmin and qmax are meaningful. kTensorForeignRead (inputs): the caller's buffer may be read
// 63 bytes past its end, so the plan need not copy it.
inline constexpr uint8_t kTensorHasQuant = 1, kTensorForeignRead = 2;

struct ProgramTensor {
  DType dtype;
  TensorKind kind;
  uint8_t rank;
  uint8_t flags;
  Layout layout;
  uint8_t reserved[3];
  uint32_t dims[kMaxRank];  // indices of ProgramDims; canonical dims, whatever the layout
  uint32_t offset_units;    // constants and a variable's initial value: where in WEIGHTS
  uint32_t stored_bytes;    // constants: bytes there, padding included; temporaries that a Pack makes: bytes they take
  uint32_t port;            // inputs, outputs, variables: position among their kind
  QuantParams quant;        // per tensor; per-channel scales are operands of the step
};

// Made by a Pack: canonical dims, but as large as its layout needs.
inline bool is_packed_temporary(const ProgramTensor& t) {
  return t.kind == TensorKind::kTemporary && t.layout != Layout::kPlain;
}

struct ProgramStep {
  uint16_t op;
  uint16_t version;        // of the op's attributes and operands, written as low as suffices
  uint16_t n_in;
  uint16_t n_out;
  uint32_t operands;       // first of n_in + n_out entries in the operand table (tensor indices; kNoTensor for a missing input)
  uint32_t attrs;          // byte offset in the attribute table, 4-aligned
  uint32_t attr_bytes;
  uint32_t macs_dim;       // ProgramDim giving multiply-accumulates, for reports
};

// Header of the PLAN section. All *_at are byte offsets from its start, 4-aligned.
struct ProgramHeader {
  uint32_t magic;  // kProgramMagic
  uint16_t major, minor;
  uint32_t bytes;  // whole section
  uint32_t target;
  uint32_t dim_count, dim_bytes, dim_at;
  uint32_t tensor_count, tensor_bytes, tensor_at;
  uint32_t step_count, step_bytes, step_at;
  uint32_t operand_count, operand_at;
  uint32_t attr_total, attr_at;
  uint32_t symbol_count;
  uint32_t input_count, output_count, variable_count;
  // uint32 ends of step ranges that bind at once: one, unless a step's output size depends on data.
  uint32_t segment_count, segment_at;
};
inline constexpr uint32_t kProgramMagic = 0x4e414c50;  // "PLAN"
inline constexpr uint16_t kProgramMajor = 1, kProgramMinor = 0;

struct Bytes {
  const uint8_t* data = nullptr;
  uint64_t size = 0;
};

class Program {
 public:
  const ProgramHeader& header() const { return *header_; }
  uint32_t tensor_count() const { return header_->tensor_count; }
  uint32_t step_count() const { return header_->step_count; }
  const ProgramTensor& tensor(uint32_t i) const {
    return *reinterpret_cast<const ProgramTensor*>(base() + header_->tensor_at + i * header_->tensor_bytes);
  }
  const ProgramStep& step(uint32_t i) const {
    return *reinterpret_cast<const ProgramStep*>(base() + header_->step_at + i * header_->step_bytes);
  }
  const ProgramDim& dim(uint32_t i) const {
    return *reinterpret_cast<const ProgramDim*>(base() + header_->dim_at + i * header_->dim_bytes);
  }
  const uint32_t* operands() const { return reinterpret_cast<const uint32_t*>(base() + header_->operand_at); }
  // Tensor index of operand i of a step: inputs first, then outputs.
  uint32_t operand(const ProgramStep& s, uint32_t i) const { return operands()[s.operands + i]; }
  uint32_t input(const ProgramStep& s, uint32_t i) const { return i < s.n_in ? operand(s, i) : kNoTensor; }
  uint32_t output(const ProgramStep& s, uint32_t i) const { return operand(s, s.n_in + i); }
  // Steps [segment_end(i - 1), segment_end(i)) bind at once.
  uint32_t segment_end(uint32_t i) const { return reinterpret_cast<const uint32_t*>(base() + header_->segment_at)[i]; }
  // The step's attributes; members that its record lacks have their defaults.
  template <class A> A attrs(const ProgramStep& s) const {
    A a{};
    const uint32_t n = s.attr_bytes < sizeof(A) ? s.attr_bytes : static_cast<uint32_t>(sizeof(A));
    __builtin_memcpy(static_cast<void*>(&a), base() + header_->attr_at + s.attrs, n);
    return a;
  }
  const uint8_t* constant(const ProgramTensor& t) const {
    return weights_.data + static_cast<uint64_t>(t.offset_units) * kUnitBytes;
  }
  Bytes weights() const { return weights_; }

 private:
  friend Status program_open(Bytes plan, Bytes weights, Program* out);
  const uint8_t* base() const { return reinterpret_cast<const uint8_t*>(header_); }
  const ProgramHeader* header_ = nullptr;
  Bytes weights_;
};

// Checks `plan` (8-byte aligned) and `weights` (64-byte aligned, 64 more bytes readable past its end) whole, then gives the view:
// table bounds, dims that refer backwards, kinds and ports, constants inside `weights` and as large as their dims say,
// quantization parameters, known ops with as many operands as runtime/arity.h says, attributes, operands written before they are
// read and once. What depends on several tensors of a step is checked by prepare(). Errors: kCorrupt (where: the record; needed,
// got: the numbers that disagree), kVersion (a newer major, or a record that this build does not know), kUnsupported (an unknown
// op).
Status program_open(Bytes plan, Bytes weights, Program* out);

}  // namespace lathe
