// Live counts as JSON files, which add up.
#pragma once
#include <string>
#include <vector>

#include "base/tree.h"
#include "runtime/host/live_counts.h"

namespace lathe::tools {

Tree counts_json(const std::vector<LiveTensor>& tensors);
// Errors: a file that is none of these.
Result<std::vector<LiveTensor>> read_counts(const std::string& path);
// Tensors of the same name add up. Error: they have different groups, as they come from models calibrated differently.
Result<void> add_counts(std::vector<LiveTensor>* to, const std::vector<LiveTensor>& more);

}  // namespace lathe::tools
