// The table of all operators, expanded from ops.def. An archive member of its own: firmware that names only the ops it uses
// does not link it.
#include "runtime/exec/exec.h"

namespace lathe {
namespace {

const ExecEntry kTable[] = {
#define LATHE_OP(name, number, attrs) {prepare_##name, run_##name},
#include "runtime/ops.def"
#undef LATHE_OP
};

const uint16_t kNumbers[] = {
#define LATHE_OP(name, number, attrs) number,
#include "runtime/ops.def"
#undef LATHE_OP
};

}  // namespace

const ExecEntry* full_exec_table() { return kTable; }

uint32_t exec_index(uint16_t op) {
  for (uint32_t i = 0; i < sizeof(kNumbers) / sizeof(kNumbers[0]); ++i) {
    if (kNumbers[i] == op) return i;
  }
  return kNoTensor;
}

}  // namespace lathe
