// Builds the PLAN and WEIGHTS bytes of one program: interned dim records, tensors, steps, and constants that are stored once.
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/lower/lower.h"

namespace lathe {

class ImageWriter {
 public:
  explicit ImageWriter(const DimTable& dims) : dims_(dims) {}

  // What a tensor is, but for its place and dims.
  struct TensorSpec {
    DType dtype = DType::kF32;
    TensorKind kind = TensorKind::kTemporary;
    Layout layout = Layout::kPlain;
    std::optional<QuantParams> quant = {};
    uint32_t port = 0;
    ValueId value = kNoId;  // the graph value that it is, or is made from
    std::optional<ConvPacking> packing = {};  // of packed constants
    uint32_t packed_bytes = 0;                // of temporaries in a packed layout
  };
  // Errors: kUnsupported (a dim that does not fit 32 bits, a rank over kMaxRank, more than kMaxTensors tensors).
  Result<uint32_t> tensor(const TensorSpec& spec, std::span<const Dim> dims);
  // The same with constant dims and stored bytes (constants, initial values of variables). Equal bytes are stored once.
  Result<uint32_t> stored(const TensorSpec& spec, std::span<const int64_t> dims, std::vector<uint8_t> bytes);

  struct Step {
    Op op;
    Attrs attrs;
    std::vector<uint32_t> inputs;   // kNoTensor for a missing one; trailing ones are dropped
    std::vector<uint32_t> outputs;
    Dim macs;                       // invalid: none
    StepInfo info;
  };
  Result<void> step(Step step);
  // The elements of `tensor`, which the last step made, are the dims value(number, i). Steps from here on are bound when it has run.
  // Error: kInvalidArgument (the number is taken).
  Result<void> end_segment(int64_t number, uint32_t tensor);

  // Error: kOutOfMemory.
  Result<ProgramImage> finish(Target target);

 private:
  Result<uint32_t> dim(Dim d);
  uint32_t add_dim(const ProgramDim& record);
  Result<uint32_t> place(std::vector<uint8_t> bytes);
  std::vector<uint8_t> plan_bytes(Target target) const;

  const DimTable& dims_;
  std::map<uint32_t, uint32_t> dim_records_;     // Dim id to record
  std::map<int64_t, uint32_t> constant_records_;
  std::map<int64_t, uint32_t> symbols_;          // number in the table to number in the program
  std::map<int64_t, uint32_t> data_tensors_;     // number of value(number, i) to tensor
  std::vector<uint32_t> segment_ends_;           // all but the last
  std::vector<ProgramDim> records_;
  std::vector<ProgramTensor> tensors_;
  std::vector<ProgramStep> steps_;
  std::vector<uint32_t> operands_;
  std::vector<uint8_t> attrs_;
  std::vector<StepInfo> infos_;
  std::vector<ValueId> values_;
  std::vector<std::optional<ConvPacking>> packings_;
  struct Chunk {
    uint64_t at;
    std::vector<uint8_t> bytes;
  };
  std::vector<Chunk> chunks_;
  std::multimap<uint64_t, size_t> chunk_index_;  // hash to chunk
  uint64_t weights_bytes_ = 0;
};

}  // namespace lathe
