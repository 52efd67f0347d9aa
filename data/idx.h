// MNIST's idx files, plain or gzipped: magic 0 0 type rank, big-endian dims, big-endian elements.
#pragma once
#include <string>

#include "base/result.h"
#include "data/tensor.h"

namespace lathe {

// All element types of the format: u8 s8 s16 s32 f32 f64. The header's size is checked against the file before memory is taken; a
// file that is shorter or longer than its header says is an error.
Result<HostTensor> parse_idx(std::span<const std::byte> file, const std::string& where);
Result<HostTensor> read_idx(const std::string& path);

// By magic number, also inside gzip.
bool looks_like_idx(std::span<const std::byte> file);

}  // namespace lathe
