// Calibration sets as files: `lathe calibrate --build` writes them, `--samples-from` reads them.
//
// Samples are named by the hashes of their contents, in sorted order: a file means the same samples however the data set's files
// are ordered, and notices when one of them has changed.
#pragma once
#include <string>
#include <vector>

#include "data/dataset.h"

namespace lathe::tools {

struct SampleList {
  std::string where;  // the file, for messages
  std::string split;
  std::vector<Hash128> contents;  // sorted
};

std::string sample_list_text(const SampleList& list, const std::string& comment);
// Errors: a file that is no such list, or whose samples are not those that its own hash names.
Result<SampleList> read_sample_list(const std::string& path);

// Errors: the set lacks the split.
Result<const DataSplit*> split_of(const SampleList& list, const Dataset& data);
// Numbers of the samples in the split, in the list's order; of equal samples the first. Error: one that is not there.
Result<std::vector<uint32_t>> find_listed(const SampleList& list, const DataSplit& split);

}  // namespace lathe::tools
