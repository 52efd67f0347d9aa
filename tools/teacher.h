// A teacher for distillation: the model that the student comes from, whose logits are computed once and kept.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "data/batches.h"
#include "graph/ir.h"
#include "runtime/host/session.h"
#include "train/teacher_cache.h"

namespace lathe::tools {

struct TeacherRequest {
  std::string name;                    // of its file, for messages
  std::shared_ptr<const Graph> graph;  // null: no teacher
  float alpha = 0.5f, temperature = 4.0f;
  std::string cache_folder;
};

class Teacher {
 public:
  // `data` and `batches` must outlive it. Errors: a teacher that is not the student's root by content, data that does not fit it,
  // no logits in its first output.
  static Result<Teacher> open(const TeacherRequest& request, const Graph& student, const Dataset& data, const Batches& batches,
                              const SessionOptions& session);
  Teacher(Teacher&&) noexcept;
  ~Teacher();

  // *logits: [rows, values per sample].
  Result<void> logits(const Batch& batch, std::vector<float>* logits);
  // Stores what was computed.
  Result<void> flush();
  const train::TeacherCacheStats& stats() const;

 private:
  struct State;
  explicit Teacher(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace lathe::tools
