// How a constant's stored bytes and its canonical bytes turn into each other.
#pragma once
#include <optional>

#include "graph/ir.h"
#include "runtime/exec/conv_geometry.h"
#include "runtime/program.h"

namespace lathe {

// The hash in GRAPH: over the layout tag and the stored bytes.
uint64_t constant_hash(Layout layout, Bytes stored);

// Canonical bytes of a constant of `elems` elements. Errors: kCorrupt (layout, dtype, packing and sizes do not go together),
// kVersion (an unknown layout).
Result<Constant> unpacked(Layout layout, DType dtype, uint64_t elems, const std::optional<ConvPacking>& packing, Bytes stored);

}  // namespace lathe
