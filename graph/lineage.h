// Which network a compressed one comes from. Pruning and training change a network's content but not its root: the model that the
// first of them started from, by content. A teacher must be it.
//
// Thread-safe: no state.
#pragma once
#include <string>

#include "base/hash.h"
#include "graph/ir.h"

namespace lathe {

// Metadata of models that were pruned or trained from another.
inline constexpr const char* kRootKey = "lineage_root";

// Of structure, names and constants, not of metadata nor of the order in which values were made: equal for a model as it is imported
// and as it is read back from its file.
Hash128 content_hash(const Graph& graph);

// The root that the model's metadata name, else its own content hash. As hexadecimal digits.
std::string lineage_root(const Graph& graph);

// Says in the metadata of `child` that it comes from `parent`'s root.
void set_lineage(const Graph& parent, Graph* child);

}  // namespace lathe
