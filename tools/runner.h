// A session with buffers of its own, for verbs that run a model many times.
//
// The first dim of every input is the batch where the model leaves it open. Results are float32 whatever the output's type. One
// thread at a time.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/host/session.h"

namespace lathe::tools {

class Runner {
 public:
  static Result<Runner> create(std::shared_ptr<const LoadedProgram> program, const SessionOptions& options);

  // Input shapes for `batch`, from the program: open first dims become `batch`; another open dim is an error that names --shape.
  // Fails if the model fixes another batch.
  Result<std::vector<Shape>> shapes_for(uint32_t batch) const;
  // The same with samples of known dims (without batch), for inputs whose dims are open.
  Result<std::vector<Shape>> shapes_for(uint32_t batch, const std::vector<std::vector<int64_t>>& sample_dims) const;
  // Whether every input leaves its first dim open.
  bool batch_is_open() const;

  Result<void> bind(const std::vector<Shape>& input_shapes);
  Result<void> run();

  HostSession& session() { return *session_; }
  const LoadedProgram& program() const { return *program_; }
  size_t input_count() const { return inputs_.size(); }
  size_t output_count() const { return outputs_.size(); }
  const ProgramTensor& input_tensor(size_t i) const { return program_->program.tensor(input_ids_[i]); }
  const ProgramTensor& output_tensor(size_t i) const { return program_->program.tensor(output_ids_[i]); }
  const Shape& input_shape(size_t i) const { return shapes_[i]; }
  // After run(), if it depends on data.
  const Shape& output_shape(size_t i) { return session_->output_shape(static_cast<uint32_t>(i)); }
  // Buffers of the bound shapes, dense, in the program's dtypes.
  uint8_t* input(size_t i) { return inputs_[i].data(); }
  // Writes elements of input i, from `first` on, from real values: as they are, or on the grid of an 8-bit input with parameters.
  // Requires: the input is f32 or quantized s8, and has that many elements.
  void load_real(size_t i, size_t first, std::span<const float> values);
  const uint8_t* output(size_t i) const {
    const auto port = static_cast<uint32_t>(i);
    return session_->is_open(port) ? session_->output_data(port) : outputs_[i].data();
  }
  // Output i as float32 values; dequantized if it has parameters. Error: a type without a float form here (f16, bf16).
  Result<void> output_values(size_t i, std::vector<float>* values);

 private:
  std::shared_ptr<const LoadedProgram> program_;
  std::unique_ptr<HostSession> session_;
  std::vector<uint32_t> input_ids_, output_ids_;
  std::vector<Shape> shapes_;
  std::vector<std::vector<uint8_t>> inputs_, outputs_;
  std::vector<const void*> input_pointers_;
  std::vector<void*> output_pointers_;
};

// "1x3x32x32"; open dims by their symbol.
std::string shape_text(const Shape& shape);
std::string declared_shape_text(const LoadedProgram& program, uint32_t tensor);

}  // namespace lathe::tools
