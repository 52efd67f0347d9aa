#include "tools/cost_table.h"

#include <cmath>
#include <filesystem>

#include "base/atomic_file.h"
#include "base/file.h"
#include "base/json.h"
#include "graph/lineage.h"
#include "runtime/host/cpu.h"

namespace lathe::tools {

std::string device_name(const SessionOptions& session) { return cpu_name() + " " + isa_text(session.isa); }

std::string network_key(const Graph& graph, const SessionOptions& session, uint32_t batch) {
  return "network " + to_hex(content_hash(graph)) + " t" + std::to_string(session.threads) + " b" + std::to_string(batch);
}

Result<CostTable> CostTable::open(const std::string& path, const std::string& device) {
  CostTable table(path, device);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return table;
  LATHE_TRY(const std::string text, read_text_file(path));
  LATHE_TRY(const Tree tree, parse_json(text, path));
  const auto wrong = [&] {
    return fail(Code::kInvalidArgument, path + " is no table of costs as `lathe bench-device` writes it");
  };
  const Tree* devices = tree.find("devices");
  if (devices == nullptr || devices->as_table() == nullptr) return wrong();
  for (const auto& [name, entries] : *devices->as_table()) {
    if (entries.as_table() == nullptr) return wrong();
    if (name != device) {
      table.others_.emplace_back(name, entries);
      continue;
    }
    for (const auto& [key, value] : *entries.as_table()) {
      double us = 0;
      if (!value.as_number(&us) || !(us >= 0) || !std::isfinite(us)) return wrong();
      table.entries_[key] = us;
    }
  }
  return table;
}

std::optional<double> CostTable::find(const std::string& key) const {
  const auto it = entries_.find(key);
  return it == entries_.end() ? std::nullopt : std::optional<double>(it->second);
}

Result<void> CostTable::save() const {
  Tree devices = Tree::table(), mine = Tree::table(), out = Tree::table();
  for (const auto& [name, entries] : others_) devices.set(name, entries);
  for (const auto& [key, us] : entries_) mine.set(key, us);
  devices.set(device_, std::move(mine));
  return write_file_atomic(path_, to_json(out.set("devices", std::move(devices))) + "\n");
}

}  // namespace lathe::tools
