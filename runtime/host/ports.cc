#include "runtime/host/ports.h"

namespace lathe {

std::vector<uint32_t> port_tensors(const Program& program, TensorKind kind) {
  const ProgramHeader& h = program.header();
  std::vector<uint32_t> tensors(kind == TensorKind::kInput    ? h.input_count
                                : kind == TensorKind::kOutput ? h.output_count
                                                              : h.variable_count,
                                kNoTensor);
  for (uint32_t t = 0; t < program.tensor_count(); ++t)
    if (program.tensor(t).kind == kind) tensors[program.tensor(t).port] = t;
  return tensors;
}

}  // namespace lathe
