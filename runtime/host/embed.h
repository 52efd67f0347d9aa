// C++ source that holds a model and its finished plan as constants, for firmware: no start-up work, no heap, nothing to parse.
//
// `lathe embed` writes it. The plan is bound here, on the host, for the target: shapes, kernels, memory and parameters are
// decided. The source names only the operators and kernels that the model uses, so that the linker drops the others, and one that
// the target lacks is a link error. Thread-safe: no state.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/host/session.h"

namespace lathe {

struct EmbedOptions {
  std::string name = "model";   // of the namespace, and of the files name.h and name.cc: an identifier
  std::vector<Shape> shapes;    // of the inputs; empty: dims that the model leaves open are 1
  kernels::IsaSet isa = kernels::kIsaScalar;
};

struct EmbeddedModel {
  std::string header, source;        // name.h and name.cc
  std::vector<std::string> kernels;  // that the model uses, each once
  std::vector<std::string> ops;
  uint32_t arena_bytes = 0;          // with the state of variables
  uint32_t arena_lower_bound = 0;
  uint32_t weight_bytes = 0, plan_bytes = 0;  // constants in flash: weights, and tables and parameters
};

// Errors: those of binding, as HostSession::bind() words them; a name that is no identifier.
Result<EmbeddedModel> embed_program(const LoadedProgram& loaded, const EmbedOptions& options);

// Also as sources: `inputs` and the outputs expected for them, as arrays of 32-bit words in namespace `name`_cases, for
// self-tests of firmware.
struct EmbedCase {
  std::vector<std::vector<uint8_t>> inputs, outputs;  // by port
};
std::string embed_cases(const std::string& name, const std::vector<EmbedCase>& cases);

}  // namespace lathe
