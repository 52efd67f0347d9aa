// Samples that splits share, by content hash. Internal to data/.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/dataset.h"

namespace lathe {

struct OverlapReport {
  uint64_t shared = 0;  // samples that an earlier split has too
  std::string text;     // names the first pair: "split 'test' sample 3 (file ...) is also split 'train' sample 7 (file ...)"
  std::vector<uint64_t> duplicates;  // per split: samples equal to an earlier one of the same split
};

Result<OverlapReport> find_overlap(const std::vector<DataSplit>& splits);

}  // namespace lathe
