// A compiled model, ready to run: the C++ way in.
//
//   std::string error;
//   std::optional<lathe::Model> model = lathe::Model::open("int8.lathe", &error);
//   if (!model) return complain(error);
//   std::optional<lathe::Session> session = lathe::Session::create(*model, {}, &error);   // lathe/session.h
//   session->run(inputs, outputs, &error);
//
// A `.lathe` file runs if it holds a plan, which `lathe quantize` and `lathe compile` put there. Opening maps the file and checks
// its structure; weights are used where they lie, so that processes which open the same file share its memory.
//
// Errors: functions that can fail return an empty optional or false and, if `error` is not null, set it to one sentence that
// names the file. The library never prints, aborts or exits; only the standard library's std::bad_alloc may leave it.
// Thread-safety: a Model is immutable; copies share one mapping and may be used from any thread.
#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lathe/tensor.h"

namespace lathe {

struct LoadedProgram;

class Model {
 public:
  // Maps the file at `path`.
  static std::optional<Model> open(const std::string& path, std::string* error = nullptr);

  // Uses the `bytes` of a model file in memory. Requires: they start on a 64-byte boundary (else an error) and neither change nor
  // go away before the last copy of the Model and its sessions.
  static std::optional<Model> from_memory(const void* bytes, std::size_t size, std::string* error = nullptr);

  // In the order in which Session::run() takes pointers.
  const std::vector<TensorInfo>& inputs() const { return *inputs_; }
  const std::vector<TensorInfo>& outputs() const { return *outputs_; }

  // The index of an input or output by its name; empty if there is none.
  std::optional<std::size_t> find_input(const std::string& name) const;
  std::optional<std::size_t> find_output(const std::string& name) const;

 private:
  friend class Session;
  explicit Model(std::shared_ptr<const LoadedProgram> program);
  std::shared_ptr<const LoadedProgram> program_;
  std::shared_ptr<const std::vector<TensorInfo>> inputs_, outputs_;
};

}  // namespace lathe
