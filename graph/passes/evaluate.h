// Running a part of a graph that depends on constants only: its nodes are lowered alone and go through the one executor, with the
// portable kernels, so that the result does not depend on the machine.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "graph/ir.h"

namespace lathe::passes {

// Bytes of a dense value, or nothing if its size is unknown or absurd.
std::optional<uint64_t> known_bytes(const Graph& graph, ValueId v);

// These nodes of `graph`, in order, with what they read as constants; the results of the last one are the outputs. Requires: each
// operand is a constant, has contents that are numbers, or is made by a node before.
Result<Graph> nodes_alone(const Graph& graph, std::span<const NodeId> nodes);

// The outputs of a graph without inputs. Error (kUnsupported): the executor has no form for a node.
Result<std::vector<Constant>> run_alone(const Graph& alone);

// The bytes of v, if it depends on constants and known contents only, on few nodes and on little data (importers ask: what shape
// arithmetic and converted scalars need), without quantized values. Else nothing.
std::optional<Constant> evaluate(const Graph& graph, ValueId v);

}  // namespace lathe::passes
