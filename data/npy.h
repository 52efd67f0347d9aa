// NumPy's .npy and .npz files (format versions 1 to 3), little- and big-endian, C and Fortran order; written as version 1,
// little-endian, C order.
//
// dtypes: f2 f4 f8 i1 i2 i4 i8 u1 u2 bool. Others (u4, u8, complex, strings, objects) are refused by name.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/tensor.h"

namespace lathe {

// `where` opens each error: the file, and for npz the array. The size follows from the header and is checked before memory is
// taken.
Result<HostTensor> parse_npy(std::span<const std::byte> bytes, const std::string& where);
Result<std::vector<NamedTensor>> parse_npz(std::span<const std::byte> bytes, const std::string& where);

Result<HostTensor> read_npy(const std::string& path);
// Arrays in the archive's order, without the ".npy" of their names.
Result<std::vector<NamedTensor>> read_npz(const std::string& path);
// Either kind, by content; a .npy's tensor has no name.
Result<std::vector<NamedTensor>> read_arrays(const std::string& path);

// Fails for bf16, which npy cannot say.
Result<std::vector<std::byte>> npy_bytes(const HostTensor& tensor);
// Written whole or not at all.
Result<void> write_npy(const std::string& path, const HostTensor& tensor);
Result<void> write_npz(const std::string& path, const std::vector<NamedTensor>& tensors);

}  // namespace lathe
