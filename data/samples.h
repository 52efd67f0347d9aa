// The stored samples of one input: arrays in memory, or files that are decoded on access. Internal to data/.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "data/description.h"
#include "data/preprocess.h"

namespace lathe {

// Immutable, shared between threads.
class Samples {
 public:
  virtual ~Samples() = default;
  virtual uint64_t count() const = 0;
  const RawSample& form() const { return form_; }
  // The stored bytes of sample i, in form(). They lie in the object or in *scratch.
  virtual Result<const std::byte*> raw(uint64_t i, std::vector<std::byte>* scratch) const = 0;
  virtual Result<Hash128> hash(uint64_t i) const = 0;
  // "file 'x', sample 3", or "file 'x'" for one picture.
  virtual std::string where(uint64_t i) const = 0;

 protected:
  RawSample form_;
};

// All samples that the files of a split hold, before range or fraction picks some.
struct LoadedSamples {
  std::vector<std::shared_ptr<const Samples>> inputs;  // as many samples in each
  std::vector<int32_t> labels;                         // empty, or one per sample
  std::vector<GroupColumn> groups;                     // that the files themselves give
};

// Reads the files of one split. `classes`: names that labels may use. Errors name the file.
Result<LoadedSamples> load_samples(const DatasetDescription& d, const SplitDescription& split,
                                   const std::vector<std::string>& classes);

}  // namespace lathe
