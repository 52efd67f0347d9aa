// A training graph compiled and bound, with buffers for what it takes and gives. Internal to train/.
#pragma once
#include <memory>
#include <vector>

#include "runtime/host/session.h"
#include "train/training_graph.h"

namespace lathe::train {

using VariableBytes = std::vector<std::vector<std::byte>>;  // by port

class TrainingProgram {
 public:
  static Result<TrainingProgram> create(TrainingGraph graph, const SessionOptions& options);

  const TrainingGraph& graph() const { return graph_; }
  const LoadedProgram& program() const { return *program_; }
  // Port of a variable of the graph.
  uint32_t port(ValueId variable) const { return ports_[variable]; }
  // Initial values.
  VariableBytes initial() const;

  // Plans for the shapes of `data` and takes its arrays for the next run. Errors: arrays of another size than the batch, labels
  // outside the classes.
  Result<void> load(const StepData& data);
  // Rates are read only where the graph has them. Returns the loss.
  Result<float> run(float rate, float decay);
  void write(const VariableBytes& values);
  void read(VariableBytes* values) const;
  // Gradient of parameter i, after a run of a gradient graph.
  std::span<const float> gradient(size_t i) const;

  // Another session of the program, bound and loaded like this one, in which every tensor has memory of its own.
  Result<std::unique_ptr<HostSession>> open_session() const;
  std::span<const void* const> inputs() const { return inputs_; }
  std::span<void* const> outputs() const { return output_pointers_; }

 private:
  Result<void> check_labels(std::span<const int32_t> labels) const;

  TrainingGraph graph_;
  std::shared_ptr<const LoadedProgram> program_;
  SessionOptions options_;
  std::unique_ptr<HostSession> session_;
  std::vector<uint32_t> ports_;  // by value
  std::vector<Shape> shapes_;    // of all inputs, as bound
  std::vector<const void*> inputs_;
  std::vector<std::vector<float>> outputs_;
  std::vector<void*> output_pointers_;
  size_t loss_output_ = 0;
  std::unique_ptr<float[]> rates_;  // rate, decay
};

}  // namespace lathe::train
