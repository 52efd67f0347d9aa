// Which tensors of a program are its ports.
#pragma once
#include <cstdint>
#include <vector>

#include "runtime/program.h"

namespace lathe {

// Tensor indices by port. Requires: kind is kInput, kOutput or kVariable.
std::vector<uint32_t> port_tensors(const Program& program, TensorKind kind);

}  // namespace lathe
