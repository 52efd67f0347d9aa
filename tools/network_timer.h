// How long whole networks take here, measured once each and kept by content.
#pragma once
#include <cstdint>
#include <string>
#include <utility>

#include "graph/ir.h"
#include "tools/cost_table.h"
#include "tools/runner.h"

namespace lathe::tools {

class NetworkTimer {
 public:
  // `table`: a file; empty: nothing is kept. Errors: a file that is no table of costs.
  static Result<NetworkTimer> open(const std::string& table, const SessionOptions& session, uint32_t batch, double seconds);

  // Median in milliseconds, from the table if it has seen this very network on this device with these threads and this batch.
  // Measurements are saved before they are used.
  Result<double> ms(const Graph& graph);
  // Of the network, bound and filled, for comparisons.
  Result<Runner> runner(const Graph& graph) const;

  // Medians of two networks in milliseconds, measured in turns, so that what disturbs the machine disturbs both. Not kept.
  Result<std::pair<double, double>> in_turns(const Graph& a, const Graph& b) const;

  size_t measured() const { return measured_; }
  CostTable& table() { return table_; }
  Result<void> save() const { return path_.empty() ? Result<void>{} : table_.save(); }

 private:
  NetworkTimer(CostTable table, std::string path, const SessionOptions& session, uint32_t batch, double seconds)
      : table_(std::move(table)), path_(std::move(path)), session_(session), batch_(batch), seconds_(seconds) {}

  CostTable table_;
  std::string path_;
  SessionOptions session_;
  uint32_t batch_;
  double seconds_;
  size_t measured_ = 0;
};

}  // namespace lathe::tools
