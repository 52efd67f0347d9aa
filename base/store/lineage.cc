#include "base/store/lineage.h"

#include "base/store/registry.h"

namespace lathe {
namespace {

std::map<std::string, std::string> parents_of(std::span<const Version> versions) {
  std::map<std::string, std::string> parents;
  for (const Version& v : versions) parents[v.name] = v.parent;
  return parents;
}

}  // namespace

std::set<std::string> with_ancestors(std::span<const Version> versions, const std::set<std::string>& names) {
  const auto parents = parents_of(versions);
  std::set<std::string> kept;
  for (std::string name : names)
    while (!name.empty() && parents.contains(name) && kept.insert(name).second) name = parents.at(name);
  return kept;
}

std::string root_of(std::span<const Version> versions, const std::string& name) {
  const auto parents = parents_of(versions);
  std::string root = name;
  std::set<std::string> seen;
  for (auto it = parents.find(root); it != parents.end() && parents.contains(it->second) && seen.insert(root).second;
       it = parents.find(root))
    root = it->second;
  return root;
}

std::map<std::string, std::string> standing_tags(std::span<const Version> versions, const std::string& root) {
  std::map<std::string, std::string> tags;
  for (const Version& v : versions) {
    if (root_of(versions, v.name) != root) continue;
    if (v.name == root) tags["original"] = v.name;
    const auto precision = v.facts.find(kPrecisionFact);
    if (precision != v.facts.end() && precision->second != "float") tags[precision->second] = v.name;
    if (const auto stage = v.facts.find(kStageFact); stage != v.facts.end()) tags[stage->second] = v.name;
  }
  return tags;
}

}  // namespace lathe
