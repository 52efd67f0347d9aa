// A quantized network of Lathe's, rebuilt with XNNPACK's subgraph API.
#pragma once
#include <pthreadpool.h>
#include <xnnpack.h>

#include <stdexcept>
#include <string>

#include "bench/peers/peer.h"
#include "graph/ir.h"

namespace lathe::peers {

inline void check(xnn_status status, const char* what) {
  if (status != xnn_status_success) throw std::runtime_error(std::string(what) + ": status " + std::to_string(status));
}

// The same operators with the same parameters, weights per channel in s8, for `batch`. Residual additions that Lathe fused are
// operators of their own again, as XNNPACK has them. Throws where the graph has an operator that is not one of those that the
// networks of models.py need.
Run make_network(const Graph& graph, uint32_t batch, pthreadpool_t pool);

}  // namespace lathe::peers
