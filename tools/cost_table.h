// What operators and conversions cost on devices: a JSON file, by device.
//
//   {"devices": {"AMD EPYC 9R14 avx512vnni": {"Conv2d 1x32x32x16 16x3x3x16 16 > 1x32x32x16 INT8 t1": 12.4, ...}}}
//
// A device is a CPU's name and the instruction set that is used of it. One table looks at one device; the others' entries stay as
// they are. Plain value, one thread at a time.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "base/tree.h"
#include "graph/ir.h"
#include "runtime/host/session.h"

namespace lathe::tools {

// Of this machine: "AMD EPYC 9R14 avx512vnni".
std::string device_name(const SessionOptions& session);

// What a whole network's entry is called, whose value is the median of its runs: by content, threads and batch.
std::string network_key(const Graph& graph, const SessionOptions& session, uint32_t batch);

class CostTable {
 public:
  // A file that does not exist is an empty table. Errors: a file that is no such table.
  static Result<CostTable> open(const std::string& path, const std::string& device);

  // Microseconds.
  std::optional<double> find(const std::string& key) const;
  void set(const std::string& key, double us) { entries_[key] = us; }
  void clear() { entries_.clear(); }
  size_t size() const { return entries_.size(); }
  Result<void> save() const;

 private:
  CostTable(std::string path, std::string device) : path_(std::move(path)), device_(std::move(device)) {}

  std::string path_, device_;
  Tree::Table others_;  // of other devices
  std::map<std::string, double> entries_;
};

}  // namespace lathe::tools
