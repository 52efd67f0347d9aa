// Who descends from whom among the versions of a registry.
#pragma once
#include <map>
#include <set>
#include <span>
#include <string>

namespace lathe {

struct Version;

// A fact of a version that has one: "float", "fp16" (half precision somewhere, no INT8) or "int8-mixed" (INT8 somewhere).
inline constexpr const char* kPrecisionFact = "precision";
// Of a version that a step of compression made: "pruned", "trained".
inline constexpr const char* kStageFact = "stage";
// Bytes of working memory of a run at batch 1, as digits.
inline constexpr const char* kArenaFact = "arena_bytes";

// Those given and all that they were made from.
std::set<std::string> with_ancestors(std::span<const Version> versions, const std::set<std::string>& names);

// The version that `name` was made from in the end: one without a parent, or whose parent is not there.
std::string root_of(std::span<const Version> versions, const std::string& name);

// Names that stand for a version of a family without anybody setting them: "original" for its root, "fp16" and "int8-mixed" for its
// newest version of that precision, "pruned" and "trained" for its newest of that stage. `versions`: in order of creation.
std::map<std::string, std::string> standing_tags(std::span<const Version> versions, const std::string& root);

}  // namespace lathe
