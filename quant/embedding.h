// Embeddings: tables of which nodes take rows. Every row is quantized by itself, and what is taken becomes float again.
//
// A table holds one word or item per row, rows differ in size by orders of magnitude, and only the rows that are taken cost time:
// so a scale per row is free, and one for the whole table would lose the small rows.
#pragma once
#include "graph/rewriter.h"

namespace lathe {

// Whether the node takes rows of a constant float32 table by indices that are not constant, and rows are long enough (8 values) that
// bytes and a scale are smaller than floats.
bool takes_embedding_rows(const Graph& graph, const Node& node);

// Replaces such a node by: rows of an s8 table, taken and converted, times the rows' scales. The result keeps its name, and the node
// that makes it the node's. Errors: a table that is not finite.
Result<void> quantize_embedding(Rewriter& rewriter, NodeId node);

}  // namespace lathe
