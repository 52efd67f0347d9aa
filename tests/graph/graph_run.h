// Graphs from text, and their numbers: what pass, lowering and file tests share.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir.h"
#include "graph/rewriter.h"
#include "runtime/host/session.h"

namespace lathe::test {

// `constant %name : f32[dims] = ...` with uniform random elements in [lo, hi), the same for the same seed; s8 with quantization
// parameters.
std::string random_f32(const std::string& name, const std::vector<int64_t>& dims, uint32_t seed, float lo = -1.0f,
                       float hi = 1.0f);
std::string random_s8(const std::string& name, const std::vector<int64_t>& dims, uint32_t seed, const std::string& quant);
// The same, of whose blocks of 16 channels x 4 k three of four are zero. Requires: the last of dims is a multiple of 4.
std::string block_sparse_s8(const std::string& name, const std::vector<int64_t>& dims, uint32_t seed, const std::string& quant);

// The graph of `graph { body }`; a failure ends the test case.
Graph parsed(const std::string& body);

// Node and output lines without types: `%y = Conv2d (%x, %w) {pad=[1,1,1,1]}`, one per line.
std::string nodes(const Graph& graph);

// Bytes of all outputs for random inputs that depend on `seed` and the inputs' order; every symbol is 2. The graph is lowered as
// it is.
struct RunOptions {
  uint32_t seed = 1;
  kernels::IsaSet isa = kernels::kIsaScalar;
};
std::vector<std::vector<std::byte>> run_graph(const Graph& graph, const RunOptions& options = {});
std::vector<std::vector<std::byte>> run_program(std::shared_ptr<const LoadedProgram> program, const RunOptions& options = {});

// max|a - b| / max|b| over all outputs, which are float.
double relative_difference(const std::vector<std::vector<std::byte>>& a, const std::vector<std::vector<std::byte>>& b);

// Runs `pass` on the graph, checks that it becomes `expected` (as nodes() prints it), verifies, and computes the same.
void check_pass(Result<void> (*pass)(Rewriter&), const std::string& body, const std::string& expected);
// The pass must leave the graph's nodes as they are.
void check_untouched(Result<void> (*pass)(Rewriter&), const std::string& body);

}  // namespace lathe::test
