// GRAPH: a graph as a FlatBuffers section whose constants lie in WEIGHTS.
#pragma once
#include <map>
#include <optional>
#include <vector>

#include "graph/ir.h"
#include "runtime/exec/conv_geometry.h"
#include "runtime/program.h"

namespace lathe {

// Where a constant's bytes lie, and how.
struct StoredConstant {
  uint32_t at = 0;  // 64-byte units of WEIGHTS
  uint64_t bytes = 0;
  Layout layout = Layout::kPlain;
  std::optional<ConvPacking> packing;  // of every layout but kPlain
  uint64_t hash = 0;
};
using StoredConstants = std::map<ValueId, StoredConstant>;

// Requires: `stored` has every live constant, and every variable with an initial value.
std::vector<uint8_t> write_graph(const Graph& graph, const StoredConstants& stored);

// Constants in canonical form are views into `weights`, which `owner` keeps alive; packed ones are unpacked. The result has
// passed verify(). Errors: kCorrupt, kVersion, kUnsupported (an op of a newer writer).
Result<Graph> read_graph(Bytes section, Bytes weights, const std::shared_ptr<const void>& owner);

// Whether every constant's stored bytes have the hash that GRAPH states. Requires: read_graph() accepted the section.
Result<void> check_constant_hashes(Bytes section, Bytes weights);

}  // namespace lathe
