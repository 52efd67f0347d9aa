// CALIB and TESTS as FlatBuffers sections.
#pragma once
#include <vector>

#include "graph/file/model_file.h"

namespace lathe {

std::vector<uint8_t> write_calib(const std::vector<ObservedValue>& observed);
std::vector<uint8_t> write_tests(const std::vector<SelfCheck>& cases);
// Verify the buffer before reading it. Error: kCorrupt.
Result<std::vector<ObservedValue>> read_calib(Bytes section);
Result<std::vector<SelfCheck>> read_tests(Bytes section);

}  // namespace lathe
