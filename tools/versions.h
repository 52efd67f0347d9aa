// Model files as versions of a registry: what `lathe registry` and `lathe compress` share.
#pragma once
#include <string>

#include "base/store/registry.h"

namespace lathe::tools {

// "float", "fp16" or "int8-mixed" by the types of what a run works on; empty for a file that is no model.
std::string precision_of(const std::string& path);

// Keeps a model file as a version: `version` brings name, parent, command and figures; time, tool, precision and the hashes that the file
// tells come from here. Errors: Registry::add()'s.
Result<Version> add_version(Registry& registry, const std::string& path, Version version, const std::string& tag);

}  // namespace lathe::tools
