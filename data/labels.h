// Label files: idx (gzip too), npy, text with one label per line, or raw integers. Internal to data/.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/tensor.h"

namespace lathe {

// npy by content; by extension idx (.gz -ubyte .idx) and text (.txt .csv .tsv: one integer or class name per line, no header);
// else raw integers of `raw_dtype`.
Result<std::vector<int32_t>> read_labels(const std::string& path, DType raw_dtype, const std::vector<std::string>& classes);
// An integer tensor of rank 1 (or [n, 1]); `where` opens errors.
Result<std::vector<int32_t>> labels_from(const HostTensor& tensor, const std::string& where);
// An integer or a class name.
Result<int32_t> label_from_text(const std::string& text, const std::vector<std::string>& classes);

}  // namespace lathe
