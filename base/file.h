// Reading whole files, with the operating system's reason in the error.
//
// Who calls it: readers of data sets, recipes and small models. Large models are mapped instead (runtime/host/mapped_file.h).
// Thread-safe: no state.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace lathe {

// The text of an errno value as messages need it: "no space left on device".
std::string errno_text(int error);

// All bytes of a file. A file over `max_bytes` is an error that names both numbers, before anything is allocated;
// so is a folder. Pipes and devices are read until their end or the limit.
Result<std::vector<std::byte>> read_file(const std::string& path, uint64_t max_bytes = uint64_t{1} << 32);
// The same as text; nothing is converted.
Result<std::string> read_text_file(const std::string& path, uint64_t max_bytes = uint64_t{64} << 20);

}  // namespace lathe
