// What a teacher says about training samples, computed once and kept on disk as fp16.
//
// A row is found by content, never by a path: files are named after a hash of the teacher's content, the preprocessing, the
// augmentation (with its seed, where it is random) and the number of outputs; rows inside after what Batches::keys() says they
// hold. So another model or another picture under an old name is computed anew. Values are rounded to fp16 whether they are fresh
// or found, so that training does not depend on what was there.
//
// A random augmentation needs Augment::variants for its rows to come again; without, every epoch is new and is not found by a
// later one, but by a later run of the same seed.
//
// Rows go to disk in segments, files that appear whole or not at all and are checked when they are read: an interruption loses at
// most what was computed since the last one. Several processes may use one folder. Who calls it: the loop that trains. One thread
// at a time.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/batches.h"

namespace lathe::train {

struct TeacherCacheOptions {
  std::string folder;     // made where it is missing
  Hash128 teacher;        // of the model's content
  Hash128 preprocessing;  // preprocessing_hash()
  uint32_t outputs = 0;   // values per sample: logits
  uint64_t max_bytes =
      uint64_t{1} << 30;  // of this teacher's rows, on disk and in memory; what comes after is computed every time
};

struct TeacherCacheStats {
  uint64_t rows = 0;                 // there are
  uint64_t bytes = 0;                // that they take on disk
  uint64_t found = 0;                // asked for and there
  uint64_t computed = 0;             // asked for and not there
  uint64_t not_kept = 0;             // computed, but beyond max_bytes
  std::vector<std::string> damaged;  // files that were passed over when the cache was opened, and why
};

class TeacherCache {
 public:
  // `batches` gives augmentation, seed and keys and must outlive the cache. Errors: no outputs, a folder that cannot be made or
  // read.
  static Result<TeacherCache> open(const TeacherCacheOptions& options, const Batches& batches);
  TeacherCache(TeacherCache&&) noexcept;
  TeacherCache& operator=(TeacherCache&&) noexcept;
  // Tries to write what is left; flush() says whether that worked.
  ~TeacherCache();

  // Computes the outputs of these rows of the batch: values[i * outputs ...] of rows[i].
  using Compute = std::function<Result<void>(std::span<const uint32_t> rows, std::span<float> values)>;
  // *out: [rows of the batch, outputs]. Calls `compute` once with all rows that are missing, not at all if none is. Errors: those
  // of `compute`, of writing, a value that fp16 does not hold (NaN, infinite, beyond 65504) with its sample.
  Result<void> outputs(const Batch& batch, const Compute& compute, std::vector<float>* out);

  // Writes the rows since the last segment. Called on its own every few thousand rows.
  Result<void> flush();
  const TeacherCacheStats& stats() const;

 private:
  struct State;
  explicit TeacherCache(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Where a training that writes `output` keeps its cache unless it is told: the folder "teacher-cache" beside it.
std::string teacher_cache_folder(const std::string& output);

}  // namespace lathe::train
