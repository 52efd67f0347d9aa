// Small networks that between them use everything a model file can hold.
#pragma once
#include <string>
#include <vector>

#include "graph/file/model_file.h"

namespace lathe::test {

struct Sample {
  const char* name;
  std::string body;  // for parsed()
};
std::vector<Sample> samples();

// The file's bytes on a 64-byte boundary.
FileBytes written(const Graph& graph, const WriteOptions& options);
FileBytes aligned_copy(const std::vector<uint8_t>& bytes);

}  // namespace lathe::test
